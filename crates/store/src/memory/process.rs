//! One process's handle to a store in memory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{
    CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId,
};
use model::time::Time;
use tokio::sync::Notify;

use crate::access::{AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow};
use crate::commit::{Commit, Committed, Foreign, Message, MessageKey, Priority};
use crate::error::Error;
use crate::ids::Ids;
use crate::memory::iterations;
use crate::rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, Rebuilt, Recorded,
    RemovedRows, ResultRow, SessionHolder, StepState, WorkerSession,
};
use crate::safe::Safe;
use crate::store::refusal_key;
use crate::{
    Store,
    memory::state::{SessionRow, State},
};

/// The source of time.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// One process's handle to a store in memory.
pub struct Memory {
    shared: Arc<Shared>,
    owner: OwnerId,
    ids: Ids,
    foreign_commits: Arc<Notify>,
    publishes: bool,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    processes: Mutex<Vec<(OwnerId, Arc<Notify>)>>,
}

impl Memory {
    /// An empty store.
    pub fn new(clock: Clock) -> Self {
        Self::join(Arc::new(Shared {
            clock,
            state: Mutex::default(),
            processes: Mutex::default(),
        }))
    }

    /// Another process on the same store.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::join(Arc::clone(&self.shared))
    }

    /// The same process, with commits that go to the outbox.
    #[must_use]
    pub fn publishing(mut self) -> Self {
        self.publishes = true;
        self
    }

    /// Simulates the death of this process: it no longer counts as an owner.
    pub fn die(&self) {
        self.state().living.remove(&self.owner);
    }

    fn join(shared: Arc<Shared>) -> Self {
        let foreign_commits = Arc::new(Notify::new());
        let mut processes = shared.processes.lock().expect("joining does not panic");
        let slot = u8::try_from(processes.len() % 64).unwrap_or_default();
        let owner = OwnerId(format!("memory-{}", processes.len()).into());
        processes.push((owner.clone(), Arc::clone(&foreign_commits)));
        drop(processes);
        Self {
            shared,
            owner,
            ids: Ids::new(slot),
            foreign_commits,
            publishes: false,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .expect("a store operation does not panic")
    }

    fn tell_others(&self) {
        let processes = self
            .shared
            .processes
            .lock()
            .expect("joining does not panic");
        for (owner, notify) in processes.iter() {
            if *owner != self.owner {
                notify.notify_one();
            }
        }
    }
}

#[async_trait]
impl Store for Memory {
    fn now(&self) -> Time {
        (self.shared.clock)()
    }

    fn ids(&self, count: u32) -> EventId {
        self.ids.draw(self.now(), count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        self.state().living.insert(self.owner.clone());
        Ok(self.owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>> {
        let write = |commit: Commit| {
            commit.check()?;
            let mut state = self.state();
            let published = self.publishes.then(|| commit.clone());
            let committed = state.commit(commit, self.now())?;
            if let (Some(commit), Committed::Done) = (published, committed) {
                state.access.publish(&commit);
            }
            Ok(committed)
        };
        let committed = commits.into_iter().map(write).collect();
        self.tell_others();
        committed
    }

    async fn load(
        &self,
        id: ExecutionId,
        snapshot_version: u32,
    ) -> Result<Option<Recorded>, Error> {
        let state = self.state();
        let Some(run) = state.runs.get(&id) else {
            return Ok(None);
        };
        let snapshot = run
            .snapshot
            .clone()
            .filter(|snapshot| snapshot.version == snapshot_version);
        let from = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
        Ok(Some(Recorded {
            row: run.row.clone(),
            tail: run.after(from, usize::MAX),
            snapshot,
        }))
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        let state = self.state();
        Ok(state
            .runs
            .get(&id)
            .map(|run| run.after(after, limit))
            .unwrap_or_default())
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let state = self.state();
        let wanted: BTreeSet<Seq> = seqs.iter().copied().collect();
        Ok(state
            .runs
            .get(&id)
            .map(|run| {
                wanted
                    .into_iter()
                    .filter_map(|seq| run.at(seq))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default())
    }

    async fn foreign(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<Foreign>, Error> {
        Ok(self.state().foreign(id, event_ids))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        Ok(self.state().runs.get(&id).map(|run| run.row.clone()))
    }

    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error> {
        Ok(self.state().executions(filter))
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        let state = self.state();
        Ok(state
            .runs
            .get(&id)
            .map(|run| run.steps.values().cloned().collect())
            .unwrap_or_default())
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        let state = self.state();
        Ok(state
            .runs
            .get(&id)
            .map(|run| run.results.clone())
            .unwrap_or_default())
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        Ok(iterations::loops(self.state().log(id)))
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        wanted: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        let state = self.state();
        Ok(iterations::iteration_events(state.log(id), run, &wanted))
    }

    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        let state = self.state();
        Ok(iterations::iteration_outcomes(state.log(id), run, range))
    }

    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        let state = self.state();
        Ok(iterations::loop_task(state.log(id), step, run, task))
    }

    async fn failed_iterations(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        limit: usize,
    ) -> Result<Vec<u64>, Error> {
        let state = self.state();
        Ok(iterations::failed_iterations(state.log(id), run, limit))
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        Ok(iterations::iteration_count(self.state().log(id), run))
    }

    /// In memory, skipping events saves nothing.
    async fn outline(
        &self,
        id: ExecutionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, Error> {
        self.events(id, after, limit).await
    }

    async fn lasting_runs(&self) -> Result<Vec<ExecutionId>, Error> {
        let state = self.state();
        let is_lasting = |row: &ResultRow| row.result_ref.value()["scope"] == "permanent";
        let runs = state
            .runs
            .iter()
            .filter(|(_, run)| run.results.iter().any(is_lasting));
        Ok(runs.map(|(id, _)| *id).collect())
    }

    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error> {
        let claims = self.state().claim(ask, self.now());
        self.tell_others();
        Ok(claims)
    }

    async fn release(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.state().release(command, lease_epoch);
        self.tell_others();
        Ok(())
    }

    async fn renew(
        &self,
        worker: &WorkerId,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let expires_at = self.now().after(ttl);
        let is_renewed = self.state().renew(worker, holder, expires_at);
        self.tell_others();
        Ok(is_renewed)
    }

    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        let now = self.now();
        let session = self.state().sessions.get(worker).cloned();
        Ok(session.map(|session| WorkerSession {
            is_alive: session.expires_at > now,
            holder: Some(session.holder),
        }))
    }

    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let begun = SessionRow {
            holder: holder.clone(),
            expires_at: self.now().after(ttl),
        };
        let is_replaced = self.state().replace_session(worker, replaced, begun);
        self.tell_others();
        Ok(is_replaced)
    }

    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        Ok(self.state().lost_claims(owner, self.now()))
    }

    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        Ok(self.state().overdue_commands(owner, self.now()))
    }

    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        Ok(self.state().open_commands(id))
    }

    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        Ok(self.state().due_timers(owner, limit, self.now()))
    }

    async fn next_timer(
        &self,
        owner: Option<&OwnerId>,
        until: Time,
    ) -> Result<Option<Time>, Error> {
        let next = self.state().next_timer(owner);
        Ok(next.filter(|due| *due <= until))
    }

    async fn send(&self, message: Message, _priority: Priority) -> Result<(), Error> {
        self.state().post(message);
        self.tell_others();
        Ok(())
    }

    async fn refuse_message(&self, key: MessageKey, answer: &str) -> Result<(), Error> {
        let mut state = self.state();
        if state.take_back(key, self.now()) {
            state.access.set_once(&refusal_key(key), answer, self.now());
        }
        drop(state);
        self.tell_others();
        Ok(())
    }

    async fn take_back(&self, key: MessageKey) -> Result<bool, Error> {
        Ok(self.state().take_back(key, self.now()))
    }

    async fn remove_old(&self, old: OldRows) -> Result<RemovedRows, Error> {
        Ok(self.state().remove_old(old, self.now()))
    }

    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        Ok(self.state().inbox(owner, limit))
    }

    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        Ok(self.state().is_pending(key))
    }

    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        let entry = self.state().put_playbook(path, text, self.now());
        self.tell_others();
        Ok(entry)
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        let state = self.state();
        let found = state.catalog.iter().find(|entry| entry.hash == *hash);
        Ok(found.cloned())
    }

    async fn latest(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Error> {
        Ok(self.state().latest(path, version).cloned())
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        Ok(self.state().latest_of_each_path())
    }

    async fn adopt(
        &self,
        id: ExecutionId,
        me: &OwnerId,
        _priority: Priority,
    ) -> Result<Adoption, Error> {
        let adoption = self.state().adopt(id, me);
        self.tell_others();
        Ok(adoption)
    }

    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error> {
        Ok(self.state().abandoned())
    }

    async fn changed(&self) {
        self.foreign_commits.notified().await;
    }

    async fn rebuild_projections(&self) -> Result<Rebuilt, Error> {
        Ok(self.state().rebuild())
    }

    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error> {
        Ok(self.state().held(worker))
    }

    async fn peers(&self) -> Result<Vec<Peer>, Error> {
        let state = self.state();
        let living = state.living.iter();
        Ok(living.map(|owner| state.peer(owner)).collect())
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error> {
        let state = self.state();
        let owner = state.runs.get(&id).and_then(|run| run.row.owner.as_ref());
        Ok(owner.map(|owner| state.peer(owner)))
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        Ok(self.state().access.waiting(after, limit))
    }

    async fn outbox_done(&self, upto: u64) -> Result<(), Error> {
        self.state().access.published(upto);
        Ok(())
    }

    fn safe(&self) -> &dyn Safe {
        self
    }

    async fn put_token(&self, token: TokenRow) -> Result<(), Error> {
        self.state().access.tokens.insert(token.id, token);
        Ok(())
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
        let state = self.state();
        let mut tokens = state.access.tokens.values();
        Ok(tokens.find(|token| token.hash == *hash).cloned())
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        let mut tokens: Vec<_> = self.state().access.tokens.values().cloned().collect();
        tokens.sort_by_key(|token| (token.created_at, token.id));
        Ok(tokens)
    }

    async fn revoke_token(&self, id: AccessId) -> Result<(), Error> {
        self.state().access.revoke(id, self.now());
        Ok(())
    }

    async fn touch_token(&self, id: AccessId) -> Result<(), Error> {
        self.state().access.touch(id, self.now());
        Ok(())
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), Error> {
        self.state().access.audit(entry, self.now());
        Ok(())
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        let state = self.state();
        let later = state.access.trail.iter().filter(|row| row.id > after);
        Ok(later.take(limit).cloned().collect())
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        Ok(self.state().access.settings.get(key).cloned())
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        Ok(self.state().access.set_once(key, value, self.now()))
    }

    fn health(&self) -> Result<(), Error> {
        Ok(())
    }
}
