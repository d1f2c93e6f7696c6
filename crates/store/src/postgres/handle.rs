//! One process's handle to a store in Postgres.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{
    CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId,
};
use model::time::Time;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Store;
use crate::access::{AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow};
use crate::commit::{Commit, Committed, Foreign, Message, MessageKey, Priority};
use crate::error::Error;
use crate::postgres::life::Life;
use crate::postgres::options::{PostgresOptions, Target};
use crate::postgres::pool::{Connector, Plans, Pool};
use crate::postgres::side::{self, Hints};
use crate::postgres::{access, append, change, iterations, migrate, pooler, read, rebuild};
use crate::rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, Rebuilt, Recorded,
    RemovedRows, ResultRow, SessionHolder, StepState, WorkerSession,
};
use crate::safe::Safe;

/// Maximum duration of a commit, a claim or a query for due work.
const WORK_MAX: Duration = Duration::from_secs(10);

/// Maximum duration of a list query.
const LIST_MAX: Duration = Duration::from_secs(15);

/// A store in Postgres, shared by every server on the same database.
pub struct Postgres {
    /// For commits, leases and control requests.
    work: Pool,
    /// For lists, which may be slow.
    lists: Pool,
    life: Arc<Life>,
    hints: Arc<Hints>,
    publishes: bool,
    tasks: [JoinHandle<()>; 2],
    /// Dropping it with the store stops the tasks.
    _stop: watch::Sender<()>,
}

impl Postgres {
    /// Opens the store, creates or updates its schema, and registers this process.
    pub async fn open(options: PostgresOptions) -> Result<Self, Error> {
        let connector = Connector::new(Target::parse(&options.url)?)?;
        pooler::refuse(&connector).await?;
        migrate::migrate(&connector).await?;
        let life = Life::enter(&connector, options.address).await?;
        let hints = Arc::new(Hints::default());
        let (stop, stopped) = watch::channel(());
        let beats = Arc::clone(&life).run(connector.clone(), stopped.clone());
        let hearing = side::run(
            Arc::clone(&hints),
            connector.clone(),
            life.owner.clone(),
            stopped,
        );
        let lists = (options.pool_size / 3).max(1);
        let work = options.pool_size.saturating_sub(lists).max(1);
        Ok(Self {
            work: Pool::new(connector.clone(), work, WORK_MAX, Plans::Once),
            lists: Pool::new(connector, lists, LIST_MAX, Plans::Fitted),
            life,
            hints,
            publishes: options.publishes,
            tasks: [tokio::spawn(beats), tokio::spawn(hearing)],
            _stop: stop,
        })
    }

    /// Connections for commits, leases and control requests.
    pub(super) fn work(&self) -> &Pool {
        &self.work
    }

    /// Notifies the other processes if the write succeeded.
    fn told<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        if written.is_ok() {
            self.hints.tell();
        }
        written
    }
}

#[async_trait]
impl Store for Postgres {
    fn now(&self) -> Time {
        self.life.clock.now()
    }

    fn ids(&self, count: u32) -> EventId {
        self.life.ids(count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        Ok(self.life.owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>> {
        let answers = append::append(&self.work, commits, self.publishes).await;
        if answers
            .iter()
            .any(|answer| matches!(answer, Ok(Committed::Done)))
        {
            self.hints.tell();
        }
        answers
    }

    async fn load(
        &self,
        id: ExecutionId,
        snapshot_version: u32,
    ) -> Result<Option<Recorded>, Error> {
        read::load(&self.work, id, snapshot_version).await
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        read::events(&self.lists, id, after, limit).await
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        read::events_at(&self.work, id, seqs).await
    }

    async fn foreign(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<Foreign>, Error> {
        read::foreign(&self.work, id, event_ids).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        read::execution(&self.work, id).await
    }

    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error> {
        read::executions(&self.lists, filter).await
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        read::steps(&self.lists, id).await
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        read::results(&self.lists, id).await
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        iterations::loops(&self.lists, id).await
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        wanted: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        iterations::iteration_events(&self.lists, id, run, wanted).await
    }

    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        iterations::iteration_outcomes(&self.lists, id, run, range).await
    }

    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        iterations::loop_task(&self.lists, id, step, run, task).await
    }

    async fn failed_iterations(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        limit: usize,
    ) -> Result<Vec<u64>, Error> {
        iterations::failed_iterations(&self.lists, id, run, limit).await
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        iterations::iteration_count(&self.lists, id, run).await
    }

    async fn outline(
        &self,
        id: ExecutionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, Error> {
        iterations::outline(&self.lists, id, after, limit).await
    }

    async fn lasting_runs(&self) -> Result<Vec<ExecutionId>, Error> {
        read::lasting_runs(&self.lists).await
    }

    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error> {
        change::claim(&self.work, ask).await
    }

    async fn release(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.told(change::release(&self.work, command, lease_epoch).await)
    }

    async fn renew(
        &self,
        worker: &WorkerId,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        change::renew(&self.work, worker, holder, self.now().after(ttl)).await
    }

    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        read::session(&self.work, worker, self.now()).await
    }

    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let expires_at = self.now().after(ttl);
        change::replace_session(&self.work, worker, replaced, holder, expires_at).await
    }

    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        read::lost_claims(&self.work, owner, self.now()).await
    }

    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        read::overdue_commands(&self.work, owner, self.now()).await
    }

    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        read::open_commands(&self.lists, id).await
    }

    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        let due = read::timers(&self.work, owner, self.now(), limit).await?;
        Ok(due.into_iter().map(|(_, id, seq)| (id, seq)).collect())
    }

    async fn next_timer(
        &self,
        owner: Option<&OwnerId>,
        until: Time,
    ) -> Result<Option<Time>, Error> {
        let next = read::timers(&self.work, owner, until, 1).await?;
        Ok(next.first().map(|(due, ..)| *due))
    }

    async fn send(&self, message: Message, _priority: Priority) -> Result<(), Error> {
        self.told(change::send(&self.work, &message).await)
    }

    async fn refuse_message(&self, key: MessageKey, answer: &str) -> Result<(), Error> {
        self.told(change::refuse_message(&self.work, key, answer).await)
    }

    async fn take_back(&self, key: MessageKey) -> Result<bool, Error> {
        change::take_back(&self.work, key).await
    }

    async fn remove_old(&self, old: OldRows) -> Result<RemovedRows, Error> {
        change::remove_old(&self.lists, old).await
    }

    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        read::inbox(&self.work, owner, limit, self.now()).await
    }

    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        read::is_pending(&self.work, key).await
    }

    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        self.told(change::put_playbook(&self.work, path, text).await)
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        read::playbook(&self.work, hash).await
    }

    async fn latest(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Error> {
        read::latest(&self.work, path, version).await
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        read::catalog(&self.lists).await
    }

    async fn adopt(
        &self,
        id: ExecutionId,
        me: &OwnerId,
        _priority: Priority,
    ) -> Result<Adoption, Error> {
        self.told(change::adopt(&self.work, id, me, self.now()).await)
    }

    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error> {
        read::abandoned(&self.work, self.now()).await
    }

    async fn changed(&self) {
        self.hints.wait().await;
    }

    async fn rebuild_projections(&self) -> Result<Rebuilt, Error> {
        rebuild::rebuild(&self.lists).await
    }

    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error> {
        access::held(&self.work, worker).await
    }

    async fn peers(&self) -> Result<Vec<Peer>, Error> {
        access::peers(&self.work, self.now()).await
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error> {
        access::owner_of(&self.work, id, self.now()).await
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        access::outbox(&self.lists, after, limit).await
    }

    async fn outbox_done(&self, upto: u64) -> Result<(), Error> {
        access::outbox_done(&self.lists, upto).await
    }

    fn safe(&self) -> &dyn Safe {
        self
    }

    async fn put_token(&self, token: TokenRow) -> Result<(), Error> {
        access::put_token(&self.work, &token).await
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
        access::token_by_hash(&self.work, hash).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        access::tokens(&self.lists).await
    }

    async fn revoke_token(&self, id: AccessId) -> Result<(), Error> {
        access::revoke_token(&self.work, id).await
    }

    async fn touch_token(&self, id: AccessId) -> Result<(), Error> {
        access::touch_token(&self.work, id).await
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), Error> {
        access::audit(&self.work, &entry).await
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        access::audit_entries(&self.lists, after, limit).await
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        access::setting(&self.work, key).await
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        access::set_setting_once(&self.work, key, value).await
    }

    fn health(&self) -> Result<(), Error> {
        if self.tasks.iter().any(JoinHandle::is_finished) {
            return Err(Error::Unavailable(
                "a background task of the store stopped".into(),
            ));
        }
        if let Some(refusal) = self.life.refusal() {
            return Err(refusal);
        }
        if !self.life.is_heard() {
            return Err(Error::Unavailable(
                "failed to write a heartbeat for 3 s".into(),
            ));
        }
        Ok(())
    }
}
