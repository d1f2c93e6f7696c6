//! One process's handle to a store in a directory.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{
    CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId,
};
use model::time::Time;
use rusqlite::Connection;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::Store;
use crate::access::{AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow};
use crate::commit::{Commit, Committed, Foreign, Message, MessageKey, Priority};
use crate::error::Error;
use crate::ids::Ids;
use crate::memory::Clock;
use crate::rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, Rebuilt, Recorded,
    RemovedRows, ResultRow, SessionHolder, StepState, WorkerSession,
};
use crate::safe::Safe;
use crate::sqlite::append::Append;
use crate::sqlite::function_job::FunctionJob;
use crate::sqlite::open::Pages;
use crate::sqlite::owners::{Life, Owners};
use crate::sqlite::read::Fault;
use crate::sqlite::readers::Readers;
use crate::sqlite::writer::{Job, Pen, Refusal, Refused, Request};
use crate::sqlite::{access, append, change, clock, iterations, open, read, removal, writer};
use crate::verify::Damage;

/// Capacity of the write queue. When it is full, callers wait for a permit.
const QUEUE_MAX: usize = 4_096;

/// A store in a local directory.
pub struct Sqlite {
    pub(super) clock: Clock,
    pub(super) owners: Owners,
    pub(super) life: Mutex<Option<Life>>,
    pub(super) ids: OnceLock<(Ids, Option<File>)>,
    readers: Readers,
    pub(super) room: Arc<Semaphore>,
    pub(super) queue: Option<Sender<Request>>,
    pub(super) pen: Option<Arc<Mutex<Pen>>>,
    refusal: Refusal,
    pub(super) thread: Option<JoinHandle<()>>,
    pub(super) foreign_commits: Arc<Notify>,
    publishes: bool,
}

/// Maximum time to wait for another process's commit; callers then check again.
const CHANGED_WAIT_MAX: Duration = Duration::from_millis(200);

impl Sqlite {
    /// Opens the store in a directory, and creates it if there is none.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_with_clock(dir, clock::steady())
    }

    /// The same, with another clock than the machine's.
    pub fn open_with_clock(dir: &Path, clock: Clock) -> Result<Self, Error> {
        let file = open::prepare(dir)?;
        let mut db = open::connect(&file, Pages::OfTheWriter)?;
        open::migrate(&mut db, &file)?;
        let readers = Readers::new(&file, |file| open::connect(file, Pages::OfAReader));
        Self::over(dir, clock, db, readers)
    }

    /// Opens the store in a directory for reading, even if it cannot be written; writes are then refused.
    pub fn open_to_read(dir: &Path) -> Result<Self, Error> {
        match Self::open(dir) {
            Err(Error::ReadOnly { .. } | Error::Full { .. }) => {
                let file = open::prepare(dir)?;
                let db = open::connect_to_read(&file)?;
                open::check_schema(&db, &file)?;
                let readers = Readers::new(&file, open::connect_to_read);
                Self::over(dir, clock::steady(), db, readers)
            }
            opened => opened,
        }
    }

    fn over(dir: &Path, clock: Clock, db: Connection, readers: Readers) -> Result<Self, Error> {
        let file = readers.file().to_owned();
        let foreign_commits = Arc::new(Notify::new());
        let started = writer::start(db, &file, Arc::clone(&foreign_commits))?;
        Ok(Self {
            clock,
            owners: Owners::new(dir),
            life: Mutex::new(None),
            ids: OnceLock::new(),
            readers,
            room: Arc::new(Semaphore::new(QUEUE_MAX)),
            pen: Some(started.pen),
            refusal: started.refusal,
            queue: Some(started.queue),
            thread: Some(started.thread),
            foreign_commits,
            publishes: false,
        })
    }

    /// The same store, with commits that write rows to the outbox for a publisher.
    #[must_use]
    pub fn publishing(mut self) -> Self {
        self.publishes = true;
        self
    }

    fn life(&self) -> MutexGuard<'_, Option<Life>> {
        self.life.lock().expect("taking ownership does not panic")
    }

    fn ask(&self, request: Request) -> Result<(), Error> {
        let queue = self.queue.as_ref();
        let queue = queue.expect("the queue exists until the store is dropped");
        queue.send(request).map_err(|_| stopped())
    }

    async fn enqueue(&self, job: Box<dyn Job>) -> Result<(), Error> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let permit = room.map_err(|_| stopped())?;
        self.ask(Request::Job(job, permit))
    }

    /// Runs a write that is not a commit, in the next group.
    pub(super) async fn write<T, F>(&self, run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        self.write_with(Priority::Normal, run).await
    }

    /// The same, with a priority.
    async fn write_with<T, F>(&self, priority: Priority, run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = FunctionJob::new(run, priority, answer);
        self.enqueue(Box::new(job)).await?;
        answered.await.map_err(|_| stopped())?
    }

    /// Runs a query on its own connection, outside the async threads.
    pub(super) async fn read<T, F>(&self, query: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.readers.run(query).await
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        drop(self.queue.take());
        drop(self.pen.take());
        if let Some(thread) = self.thread.take() {
            // Queued writes finish before the drop returns; a panic in the thread was already reported to its callers.
            let _ = thread.join();
        }
    }
}

fn stopped() -> Error {
    Error::Unavailable("the writer thread of the store has stopped".into())
}

#[async_trait]
impl Store for Sqlite {
    fn now(&self) -> Time {
        (self.clock)()
    }

    fn ids(&self, count: u32) -> EventId {
        let (ids, _lock) = self.ids.get_or_init(|| match self.owners.id_slot() {
            Some((slot, lock)) => (Ids::new(slot), Some(lock)),
            // There are more processes than slots: process ID and milliseconds make collisions unlikely.
            None => (Ids::new(std::process::id().to_le_bytes()[0]), None),
        });
        ids.draw(self.now(), count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        let mut life = self.life();
        if let Some(life) = &*life {
            return Ok(life.owner.clone());
        }
        let entered = self.owners.enter(self.now())?;
        Ok(life.insert(entered).owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>> {
        let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(commits.len());
        let mut answers = Vec::with_capacity(commits.len());
        for commit in commits {
            let (answer, answered) = oneshot::channel();
            match commit.check() {
                Ok(()) => group.push(Box::new(Append::new(
                    commit,
                    (self.now(), self.publishes),
                    answer,
                ))),
                // The receiver cannot be closed yet.
                Err(error) => drop(answer.send(Err(error))),
            }
            answers.push(answered);
        }
        let pen = self.pen.as_ref().expect("a store has its pen");
        pen.lock()
            .expect("writing does not panic")
            .write(&mut group);
        let answered = answers.into_iter().map(|mut answered| answered.try_recv());
        answered
            .map(|answer| answer.unwrap_or_else(|_| Err(stopped())))
            .collect()
    }

    async fn load(
        &self,
        id: ExecutionId,
        snapshot_version: u32,
    ) -> Result<Option<Recorded>, Error> {
        self.read(move |db| read::load(db, id, snapshot_version))
            .await
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.read(move |db| read::events(db, id, after, limit))
            .await
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let seqs = seqs.to_vec();
        self.read(move |db| read::events_at(db, id, &seqs)).await
    }

    async fn foreign(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<Foreign>, Error> {
        let event_ids = event_ids.to_vec();
        self.read(move |db| read::foreign(db, id, &event_ids)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.read(move |db| read::execution(db, id)).await
    }

    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error> {
        let filter = filter.clone();
        self.read(move |db| read::executions(db, &filter)).await
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        self.read(move |db| read::steps(db, id)).await
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        self.read(move |db| read::results(db, id)).await
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        self.read(move |db| iterations::loops(db, id)).await
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        wanted: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        let run = run.clone();
        self.read(move |db| iterations::iteration_events(db, id, &run, &wanted))
            .await
    }

    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        let (run, range) = (run.clone(), range.clone());
        self.read(move |db| iterations::iteration_outcomes(db, id, &run, &range))
            .await
    }

    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        let (step, task) = (step.clone(), task.clone());
        self.read(move |db| iterations::loop_task(db, id, &step, run, &task))
            .await
    }

    async fn failed_iterations(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        limit: usize,
    ) -> Result<Vec<u64>, Error> {
        let run = run.clone();
        self.read(move |db| iterations::failed_iterations(db, id, &run, limit))
            .await
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        let run = run.clone();
        self.read(move |db| iterations::iteration_count(db, id, &run))
            .await
    }

    async fn outline(
        &self,
        id: ExecutionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, Error> {
        self.read(move |db| iterations::outline(db, id, after, limit))
            .await
    }

    async fn lasting_runs(&self) -> Result<Vec<ExecutionId>, Error> {
        self.read(read::lasting_runs).await
    }

    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error> {
        let (ask, now) = (ask.clone(), self.now());
        self.write(move |db| change::claim(db, &ask, now)).await
    }

    async fn release(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.write(move |db| change::release(db, command, lease_epoch))
            .await
    }

    async fn renew(
        &self,
        worker: &WorkerId,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let (worker, holder) = (worker.clone(), holder.clone());
        let expires_at = self.now().after(ttl);
        self.write(move |db| change::renew(db, &worker, &holder, expires_at))
            .await
    }

    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        let (worker, now) = (worker.clone(), self.now());
        self.read(move |db| read::session(db, &worker, now)).await
    }

    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let (worker, replaced, holder) = (worker.clone(), replaced.clone(), holder.clone());
        let expires_at = self.now().after(ttl);
        self.write(move |db| change::replace_session(db, &worker, &replaced, &holder, expires_at))
            .await
    }

    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        self.read(move |db| read::lost_claims(db, owner.as_ref(), now))
            .await
    }

    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        self.read(move |db| read::overdue_commands(db, owner.as_ref(), now))
            .await
    }

    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        self.read(move |db| read::open_commands(db, id)).await
    }

    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        let due = self.read(move |db| read::timers(db, owner.as_ref(), now, limit));
        let due = due.await?.into_iter();
        Ok(due.map(|(id, seq, _)| (id, seq)).collect())
    }

    async fn next_timer(
        &self,
        owner: Option<&OwnerId>,
        until: Time,
    ) -> Result<Option<Time>, Error> {
        let owner = owner.cloned();
        let next = self.read(move |db| read::timers(db, owner.as_ref(), until, 1));
        Ok(next.await?.first().map(|(_, _, due)| *due))
    }

    async fn send(&self, message: Message, priority: Priority) -> Result<(), Error> {
        self.write_with(priority, move |db| Ok(append::post(db, &message)?))
            .await
    }

    async fn refuse_message(&self, key: MessageKey, answer: &str) -> Result<(), Error> {
        let (answer, now) = (answer.to_owned(), self.now());
        self.write(move |db| change::refuse_message(db, key, &answer, now))
            .await
    }

    async fn take_back(&self, key: MessageKey) -> Result<bool, Error> {
        let now = self.now();
        self.write(move |db| Ok(change::take_back(db, key, now)?))
            .await
    }

    async fn remove_old(&self, old: OldRows) -> Result<RemovedRows, Error> {
        let now = self.now();
        self.write(move |db| removal::remove_old(db, old, now))
            .await
    }

    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        let (owner, owners) = (owner.cloned(), self.owners.clone());
        self.read(move |db| read::inbox(db, &owners, owner.as_ref(), limit))
            .await
    }

    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        self.read(move |db| read::is_pending(db, key)).await
    }

    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        let (path, text, now) = (path.to_owned(), text.to_owned(), self.now());
        self.write(move |db| change::put_playbook(db, &path, &text, now))
            .await
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        let hash = hash.clone();
        self.read(move |db| read::playbook(db, &hash)).await
    }

    async fn latest(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Error> {
        let path = path.to_owned();
        self.read(move |db| Ok(read::latest(db, &path, version)?))
            .await
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        self.read(read::catalog).await
    }

    async fn adopt(
        &self,
        id: ExecutionId,
        me: &OwnerId,
        priority: Priority,
    ) -> Result<Adoption, Error> {
        let (owners, me) = (self.owners.clone(), me.clone());
        self.write_with(priority, move |db| change::adopt(db, &owners, id, &me))
            .await
    }

    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error> {
        let owners = self.owners.clone();
        self.read(move |db| read::abandoned(db, &owners)).await
    }

    async fn changed(&self) {
        // If the thread has stopped, no notification follows; every other call reports the error.
        let _ = self.ask(Request::Watch);
        // A commit between two calls sends no notification, so each call waits only a short time.
        let _ = tokio::time::timeout(CHANGED_WAIT_MAX, self.foreign_commits.notified()).await;
    }

    async fn rebuild_projections(&self) -> Result<Rebuilt, Error> {
        self.write(change::rebuild).await
    }

    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error> {
        let worker = worker.clone();
        self.read(move |db| access::held(db, &worker)).await
    }

    async fn peers(&self) -> Result<Vec<Peer>, Error> {
        let all = self.owners.all().into_iter();
        Ok(all
            .map(|(owner, alive)| Peer {
                owner,
                address: None,
                alive,
            })
            .collect())
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error> {
        let owners = self.owners.clone();
        self.read(move |db| access::owner_of(db, &owners, id)).await
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        self.read(move |db| access::outbox(db, after, limit)).await
    }

    async fn outbox_done(&self, upto: u64) -> Result<(), Error> {
        self.write(move |db| access::outbox_done(db, upto)).await
    }

    fn safe(&self) -> &dyn Safe {
        self
    }

    async fn put_token(&self, token: TokenRow) -> Result<(), Error> {
        self.write(move |db| access::put_token(db, &token)).await
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
        let hash = *hash;
        self.read(move |db| access::token_by_hash(db, &hash)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        self.read(access::tokens).await
    }

    async fn revoke_token(&self, id: AccessId) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::revoke_token(db, id, now))
            .await
    }

    async fn touch_token(&self, id: AccessId) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::touch_token(db, id, now)).await
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::audit(db, &entry, now)).await
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.read(move |db| access::audit_entries(db, after, limit))
            .await
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        let key = key.to_owned();
        self.read(move |db| access::setting(db, &key)).await
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        let (key, value, now) = (key.to_owned(), value.to_owned(), self.now());
        self.write(move |db| access::set_setting_once(db, &key, &value, now))
            .await
    }

    async fn damaged_files(&self) -> Result<Vec<Damage>, Error> {
        self.read(read::damage).await
    }

    fn health(&self) -> Result<(), Error> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => {}
            _ => return Err(stopped()),
        }
        let is_scarce = || writer::is_scarce(self.readers.file());
        if (self.refusal.error().is_some() || is_scarce())
            && let Some(pen) = &self.pen
        {
            pen.lock().expect("writing does not panic").probe();
        }
        self.refusal.error().map_or(Ok(()), Err)
    }
}
