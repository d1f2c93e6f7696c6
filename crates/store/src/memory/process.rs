//! One process's handle to a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::time::Time;
use tokio::sync::Notify;

use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim};
use crate::commit::{Commit, CommitStatus, ExternalEventKey, Message, MessageKey, Priority};
use crate::error::Error;
use crate::execution_filter::{ExecutionFilter, FacetRow};
use crate::ids::IdGenerator;
use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings};
use crate::memory::iterations;
use crate::monitoring::MonitoringStore;
use crate::rows::{
    Adoption, CatalogEntry, CatalogVersion, ClaimQuery, CommandClaim, ExecutionRow, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, RebuildStats, RemovedRows, ResultRow,
    SessionHolder, StepState, StoredExecution, WaitEntry, WorkerSession,
};
use crate::sealed::SealedStore;
use crate::sqlite::ClockFn;
use crate::store::refusal_key;
use crate::wait_filter::WaitFilter;
use crate::{
    Store,
    memory::state::{MemoryState, SessionRow},
};

/// One process's handle to a store in memory.
pub struct MemoryStore {
    shared: Arc<MemoryShared>,
    owner: OwnerId,
    ids: IdGenerator,
    foreign_commits: Arc<Notify>,
    publishes: bool,
}

struct MemoryShared {
    clock: ClockFn,
    state: Mutex<MemoryState>,
    processes: Mutex<Vec<(OwnerId, Arc<Notify>)>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: ClockFn) -> Self {
        Self::new_process(Arc::new(MemoryShared {
            clock,
            state: Mutex::default(),
            processes: Mutex::default(),
        }))
    }

    /// Another process on the same store.
    #[must_use]
    pub fn join_process(&self) -> Self {
        Self::new_process(Arc::clone(&self.shared))
    }

    /// The same process, with commits that go to the outbox.
    #[must_use]
    pub fn with_outbox(mut self) -> Self {
        self.publishes = true;
        self.state().publishers.insert(self.owner.clone());
        self
    }

    /// Simulates the death of this process: it no longer counts as an owner.
    pub fn kill(&self) {
        self.state().live_owners.remove(&self.owner);
    }

    fn new_process(shared: Arc<MemoryShared>) -> Self {
        let foreign_commits = Arc::new(Notify::new());
        let mut processes = shared.processes.lock().expect("adding a process does not panic");
        let slot = u8::try_from(processes.len() % 64).unwrap_or_default();
        let owner = OwnerId(format!("memory-{}", processes.len()).into());
        processes.push((owner.clone(), Arc::clone(&foreign_commits)));
        drop(processes);
        Self {
            shared,
            owner,
            ids: IdGenerator::new(slot),
            foreign_commits,
            publishes: false,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.shared.state.lock().expect("a store operation does not panic")
    }

    fn notify_others(&self) {
        let processes = self.shared.processes.lock().expect("adding a process does not panic");
        for (owner, notify) in processes.iter() {
            if *owner != self.owner {
                notify.notify_one();
            }
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn now(&self) -> Time {
        (self.shared.clock)()
    }

    fn ids(&self, count: u32) -> EventId {
        self.ids.draw(self.now(), count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        self.state().live_owners.insert(self.owner.clone());
        Ok(self.owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        let write = |commit: Commit| {
            commit.check()?;
            let mut state = self.state();
            let published = self.publishes.then(|| commit.clone());
            let status = state.commit(commit, self.now())?;
            if let (Some(commit), CommitStatus::Committed) = (published, status) {
                state.admin.add_to_outbox(&commit);
            }
            Ok(status)
        };
        let results = commits.into_iter().map(write).collect();
        self.notify_others();
        results
    }

    async fn load(&self, id: ExecutionId, snapshot_version: u32) -> Result<Option<StoredExecution>, Error> {
        let state = self.state();
        let Some(execution) = state.executions.get(&id) else {
            return Ok(None);
        };
        let snapshot = execution
            .snapshot
            .clone()
            .filter(|snapshot| snapshot.version == snapshot_version);
        let from = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
        Ok(Some(StoredExecution {
            row: execution.row.clone(),
            tail: execution.events_after(from, usize::MAX),
            snapshot,
        }))
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        let state = self.state();
        Ok(state
            .executions
            .get(&id)
            .map(|execution| execution.events_after(after, limit))
            .unwrap_or_default())
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let state = self.state();
        let wanted_seqs: BTreeSet<Seq> = seqs.iter().copied().collect();
        Ok(state
            .executions
            .get(&id)
            .map(|execution| {
                wanted_seqs
                    .into_iter()
                    .filter_map(|seq| execution.event_at(seq))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default())
    }

    async fn external_events(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<ExternalEventKey>, Error> {
        Ok(self.state().external_events(id, event_ids))
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        Ok(self.state().executions.get(&id).map(|execution| execution.row.clone()))
    }

    async fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionRow>, Error> {
        Ok(self.state().executions(filter, self.now()))
    }

    async fn labels(&self, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error> {
        let state = self.state();
        let labels = ids
            .iter()
            .filter_map(|id| Some((*id, state.executions.get(id)?.labels())));
        let labels = labels.filter(|(_, labels)| !labels.is_empty());
        Ok(labels.map(|(id, labels)| (id, labels.clone())).collect())
    }

    async fn execution_facets(&self, filter: &ExecutionFilter) -> Result<Vec<FacetRow>, Error> {
        let rows = self.executions(filter).await?.into_iter();
        Ok(rows
            .map(|row| FacetRow {
                id: row.id,
                status: row.status,
                path: row.path,
                started_at: row.started_at,
                error: row.error,
            })
            .collect())
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        let state = self.state();
        Ok(state
            .executions
            .get(&id)
            .map(|execution| execution.steps.values().cloned().collect())
            .unwrap_or_default())
    }

    async fn waits(&self, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error> {
        Ok(self.state().waits(filter))
    }

    async fn wait_count(&self, filter: &WaitFilter) -> Result<u64, Error> {
        Ok(self.state().waits(filter).len() as u64)
    }

    async fn awaited_signals(&self, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, Error> {
        Ok(self.state().awaited_signals(ids))
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        let state = self.state();
        Ok(state
            .executions
            .get(&id)
            .map(|execution| execution.results.clone())
            .unwrap_or_default())
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        Ok(iterations::loops(self.state().log(id)))
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        indices: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        let state = self.state();
        Ok(iterations::iteration_events(state.log(id), run, &indices))
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

    async fn failed_iterations(&self, id: ExecutionId, run: &StepRunId, limit: usize) -> Result<Vec<u64>, Error> {
        let state = self.state();
        Ok(iterations::failed_iterations(state.log(id), run, limit))
    }

    async fn iteration_rows(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        query: &IterationRowQuery,
    ) -> Result<Vec<IterationRow>, Error> {
        Ok(iterations::iteration_rows(self.state().log(id), run, query))
    }

    async fn iteration_timings(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
        _appends_max: usize,
    ) -> Result<IterationTimings, Error> {
        let state = self.state();
        Ok(iterations::iteration_timings(state.log(id), run, &iterations))
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        Ok(iterations::iteration_count(self.state().log(id), run))
    }

    /// In memory, skipping events saves nothing.
    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.events(id, after, limit).await
    }

    async fn executions_with_permanent_bodies(&self) -> Result<Vec<ExecutionId>, Error> {
        let state = self.state();
        let is_permanent = |row: &ResultRow| row.result_ref.to_value()["scope"] == "permanent";
        let executions = state
            .executions
            .iter()
            .filter(|(_, execution)| execution.results.iter().any(is_permanent));
        Ok(executions.map(|(id, _)| *id).collect())
    }

    async fn claim_commands(&self, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error> {
        let claims = self.state().claim(query, self.now());
        self.notify_others();
        Ok(claims)
    }

    async fn release_claim(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.state().release(command, lease_epoch);
        self.notify_others();
        Ok(())
    }

    async fn renew_session(&self, worker: &WorkerId, holder: &SessionHolder, ttl: Duration) -> Result<bool, Error> {
        let expires_at = self.now().after(ttl);
        let is_renewed = self.state().renew_session(worker, holder, expires_at);
        self.notify_others();
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
        let row = SessionRow {
            holder: holder.clone(),
            expires_at: self.now().after(ttl),
            description: None,
        };
        let is_replaced = self.state().replace_session(worker, replaced, row);
        self.notify_others();
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

    async fn due_timers(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        Ok(self.state().due_timers(owner, limit, self.now()))
    }

    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time) -> Result<Option<Time>, Error> {
        let next = self.state().next_timer(owner);
        Ok(next.filter(|due| *due <= until))
    }

    async fn send_message(&self, message: Message, _priority: Priority) -> Result<(), Error> {
        self.state().add_message(message);
        self.notify_others();
        Ok(())
    }

    async fn refuse_message(&self, key: MessageKey, reply: &str) -> Result<(), Error> {
        let mut state = self.state();
        if state.withdraw_message(key, self.now()) {
            state.admin.set_once(&refusal_key(key), reply, self.now());
        }
        drop(state);
        self.notify_others();
        Ok(())
    }

    async fn withdraw_message(&self, key: MessageKey) -> Result<bool, Error> {
        Ok(self.state().withdraw_message(key, self.now()))
    }

    async fn remove_old_rows(&self, old: OldRows) -> Result<RemovedRows, Error> {
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
        self.notify_others();
        Ok(entry)
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        let state = self.state();
        let catalog_entry = state.catalog.iter().find(|entry| entry.hash == *hash);
        Ok(catalog_entry.cloned())
    }

    async fn catalog_entry(&self, path: &str, version: Option<u32>) -> Result<Option<CatalogEntry>, Error> {
        Ok(self.state().catalog_entry(path, version).cloned())
    }

    async fn catalog_versions(
        &self,
        path: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<CatalogVersion>, Error> {
        let state = self.state();
        let entries = state.catalog.iter().rev().filter(|entry| entry.path == *path);
        let entries = entries.filter(|entry| before.is_none_or(|before| entry.version < before));
        let versions = entries.take(limit).map(|entry| CatalogVersion {
            version: entry.version,
            hash: entry.hash.clone(),
            registered_at: entry.registered_at,
        });
        Ok(versions.collect())
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        Ok(self.state().latest_of_each_path())
    }

    async fn adopt(&self, id: ExecutionId, new_owner: &OwnerId, _priority: Priority) -> Result<Adoption, Error> {
        let adoption = self.state().adopt(id, new_owner);
        self.notify_others();
        Ok(adoption)
    }

    async fn abandoned_executions(&self) -> Result<Vec<ExecutionId>, Error> {
        Ok(self.state().abandoned_executions())
    }

    async fn wait_for_change(&self) {
        self.foreign_commits.notified().await;
    }

    async fn rebuild_projections(&self) -> Result<RebuildStats, Error> {
        Ok(self.state().rebuild())
    }

    async fn worker_claims(&self, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error> {
        Ok(self.state().worker_claims(worker))
    }

    async fn processes(&self) -> Result<Vec<StoreProcess>, Error> {
        let state = self.state();
        let owners = state.live_owners.iter();
        Ok(owners.map(|owner| state.process_of(owner)).collect())
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<StoreProcess>, Error> {
        let state = self.state();
        let owner = state
            .executions
            .get(&id)
            .and_then(|execution| execution.row.owner.as_ref());
        Ok(owner.map(|owner| state.process_of(owner)))
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        Ok(self.state().admin.outbox_after(after, limit))
    }

    async fn mark_published(&self, upto: u64) -> Result<(), Error> {
        self.state().admin.remove_published(upto);
        Ok(())
    }

    fn sealed_store(&self) -> &dyn SealedStore {
        self
    }

    fn monitoring_store(&self) -> &dyn MonitoringStore {
        self
    }

    async fn put_token(&self, token: AccessTokenRow) -> Result<(), Error> {
        self.state().admin.tokens.insert(token.id, token);
        Ok(())
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error> {
        let state = self.state();
        let mut tokens = state.admin.tokens.values();
        Ok(tokens.find(|token| token.hash == *hash).cloned())
    }

    async fn tokens(&self) -> Result<Vec<AccessTokenRow>, Error> {
        let mut tokens: Vec<_> = self.state().admin.tokens.values().cloned().collect();
        tokens.sort_by_key(|token| (token.created_at, token.id));
        Ok(tokens)
    }

    async fn revoke_token(&self, id: AccessTokenId) -> Result<(), Error> {
        self.state().admin.revoke_token(id, self.now());
        Ok(())
    }

    async fn touch_token(&self, id: AccessTokenId) -> Result<(), Error> {
        self.state().admin.touch_token(id, self.now());
        Ok(())
    }

    async fn add_audit_entry(&self, entry: AuditEntry) -> Result<(), Error> {
        self.state().admin.add_audit_entry(entry, self.now());
        Ok(())
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        let state = self.state();
        let entries = state.admin.audit_trail.iter().filter(|row| row.id > after);
        Ok(entries.take(limit).cloned().collect())
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        Ok(self.state().admin.settings.get(key).cloned())
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        Ok(self.state().admin.set_once(key, value, self.now()))
    }

    fn check_health(&self) -> Result<(), Error> {
        Ok(())
    }
}
