//! A store that pauses virtual time during its writes, because SQLite writes on a thread outside the runtime. Optionally
//! it injects faults into commits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::time::Time;
use store::{
    AccessTokenId, AccessTokenRow, Adoption, AuditEntry, AuditRow, CatalogEntry, CatalogVersion, ClaimQuery,
    ClaimedCommandRow, CommandClaim, Commit, CommitStatus, Error, ExecutionFilter, ExecutionRow, ExternalEventKey,
    FacetRow, IterationOutcomes, IterationRow, IterationRowQuery, IterationTimings, LoopProgress, LoopTask, LostClaim,
    Message, MessageKey, MonitoringStore, OldRows, OpenCommand, OutboxRow, OutcomeRange, OwnerId, PendingCommand,
    PendingScope, Priority, RebuildStats, RemovedRows, ResultRow, SessionHolder, SqliteStore, StepState, Store,
    StoreProcess, StoreSize, StoredExecution, WaitEntry, WaitFilter, WorkerClaim, WorkerSession, WorkerSessionRow,
};

use crate::sim::SeededRandom;

use crate::stack::virtual_clock::run_with_time_stopped;

/// The store of one case.
pub struct PausingStore<S = SqliteStore> {
    pub inner: S,
    /// Whether the next commit is written but its outcome is reported as unknown.
    pub loses_reply: AtomicBool,
    /// How often a log was loaded.
    pub loads: AtomicUsize,
    /// Random numbers from which the faults of commits are drawn; `None` for no faults.
    pub faults: Mutex<Option<SeededRandom>>,
    /// Whether commits never return.
    pub never_replies: AtomicBool,
    /// Is notified of every commit that was written, in order.
    pub observer: Option<Arc<dyn CommitObserver>>,
}

/// Is notified of the commits of a store.
pub trait CommitObserver: Send + Sync {
    /// Called with the events of the commits of a batch that are durable now.
    fn on_written(&self, commits: &[(ExecutionId, Vec<Event>)], now: Time);
    /// Called when the store rejects a commit for good.
    fn on_rejected(&self, execution: ExecutionId, error: &Error);
}

/// The delays and the outcome of a commit.
struct CommitFault {
    before: Duration,
    after: Duration,
    outcome: FaultOutcome,
}

/// How a commit with a fault ends.
enum FaultOutcome {
    /// It is written, and the reply arrives.
    Written,
    /// It is written, and the reply is lost.
    WrittenWithoutReply,
    /// It is not written, and its outcome is reported as unknown.
    Lost,
    /// The store refuses it because the log has a newer version.
    VersionConflict,
    /// The store refuses it because a claim has expired.
    Fenced,
}

impl<S> PausingStore<S> {
    /// Creates a store without faults.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            loses_reply: AtomicBool::new(false),
            loads: AtomicUsize::new(0),
            faults: Mutex::new(None),
            never_replies: AtomicBool::new(false),
            observer: None,
        }
    }
}

impl<S: Store> PausingStore<S> {
    fn draw_fault(&self) -> Option<CommitFault> {
        let mut faults = self.faults.lock().expect("no holder panics");
        let random = faults.as_mut()?;
        let (before, after) = (random.below(10), random.below(10));
        Some(CommitFault {
            before: Duration::from_millis(before),
            after: Duration::from_millis(after),
            outcome: match random.below(100) {
                0..=5 => FaultOutcome::Lost,
                6..=11 => FaultOutcome::WrittenWithoutReply,
                12..=14 => FaultOutcome::VersionConflict,
                15..=16 => FaultOutcome::Fenced,
                _ => FaultOutcome::Written,
            },
        })
    }

    async fn commit_with_fault(&self, fault: CommitFault, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        let lost = || Err(Error::Unavailable("the connection broke".into()));
        tokio::time::sleep(fault.before).await;
        let refused = |commit: &Commit| match fault.outcome {
            FaultOutcome::Lost => Some(lost()),
            FaultOutcome::VersionConflict => Some(Ok(CommitStatus::VersionConflict {
                version: commit.expected,
            })),
            FaultOutcome::Fenced => Some(Ok(CommitStatus::Fenced)),
            FaultOutcome::Written | FaultOutcome::WrittenWithoutReply => None,
        };
        let unwritten: Vec<_> = commits.iter().filter_map(refused).collect();
        if !unwritten.is_empty() {
            return unwritten;
        }
        let statuses = self.write_observed(commits).await;
        tokio::time::sleep(fault.after).await;
        if matches!(fault.outcome, FaultOutcome::Written) {
            return statuses;
        }
        statuses.iter().map(|_| lost()).collect()
    }

    /// Writes commits, and notifies the observer of each result.
    async fn write_observed(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        let Some(observer) = &self.observer else {
            return self.inner.commit_all(commits).await;
        };
        let events = commits.iter().map(|commit| (commit.execution, commit.events.clone()));
        let events: Vec<_> = events.collect();
        let statuses = self.inner.commit_all(commits).await;
        let mut written = Vec::with_capacity(events.len());
        for (commit, status) in events.into_iter().zip(&statuses) {
            match status {
                Ok(CommitStatus::Committed) => written.push(commit),
                Ok(_) => {}
                Err(error) => observer.on_rejected(commit.0, error),
            }
        }
        observer.on_written(&written, self.inner.now());
        statuses
    }
}

#[async_trait]
impl<S: Store> Store for PausingStore<S> {
    fn now(&self) -> Time {
        self.inner.now()
    }
    fn ids(&self, count: u32) -> EventId {
        self.inner.ids(count)
    }
    fn owner(&self) -> Result<OwnerId, Error> {
        self.inner.owner()
    }
    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        if self.never_replies.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        if let Some(fault) = self.draw_fault() {
            return self.commit_with_fault(fault, commits).await;
        }
        let statuses = run_with_time_stopped(self.write_observed(commits)).await;
        if !self.loses_reply.swap(false, Ordering::Relaxed) {
            return statuses;
        }
        let lost = |_| Err(Error::Unavailable("the connection broke".into()));
        statuses.into_iter().map(lost).collect()
    }
    async fn load(&self, id: ExecutionId, version: u32) -> Result<Option<StoredExecution>, Error> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.inner.load(id, version).await
    }
    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.inner.events(id, after, limit).await
    }
    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.inner.events_at(id, seqs).await
    }
    async fn external_events(&self, id: ExecutionId, ids: &[EventId]) -> Result<Vec<ExternalEventKey>, Error> {
        self.inner.external_events(id, ids).await
    }
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.inner.execution(id).await
    }
    async fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionRow>, Error> {
        self.inner.executions(filter).await
    }
    async fn execution_facets(&self, filter: &ExecutionFilter) -> Result<Vec<FacetRow>, Error> {
        self.inner.execution_facets(filter).await
    }
    async fn labels(&self, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error> {
        self.inner.labels(ids).await
    }
    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        self.inner.steps(id).await
    }
    async fn waits(&self, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error> {
        self.inner.waits(filter).await
    }
    async fn wait_count(&self, filter: &WaitFilter) -> Result<u64, Error> {
        self.inner.wait_count(filter).await
    }
    async fn awaited_signals(&self, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, Error> {
        self.inner.awaited_signals(ids).await
    }
    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        self.inner.loops(id).await
    }
    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        self.inner.iteration_events(id, run, iterations).await
    }
    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        self.inner.iteration_outcomes(id, run, range).await
    }
    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        self.inner.loop_task(id, step, run, task).await
    }
    async fn failed_iterations(&self, id: ExecutionId, run: &StepRunId, limit: usize) -> Result<Vec<u64>, Error> {
        self.inner.failed_iterations(id, run, limit).await
    }
    async fn iteration_rows(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        query: &IterationRowQuery,
    ) -> Result<Vec<IterationRow>, Error> {
        self.inner.iteration_rows(id, run, query).await
    }
    async fn iteration_timings(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
        appends_max: usize,
    ) -> Result<IterationTimings, Error> {
        self.inner.iteration_timings(id, run, iterations, appends_max).await
    }
    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        self.inner.iteration_count(id, run).await
    }
    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.inner.outline(id, after, limit).await
    }
    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        self.inner.results(id).await
    }
    async fn executions_with_permanent_bodies(&self) -> Result<Vec<ExecutionId>, Error> {
        self.inner.executions_with_permanent_bodies().await
    }
    async fn claim_commands(&self, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error> {
        run_with_time_stopped(self.inner.claim_commands(query)).await
    }
    async fn release_claim(&self, command: CommandId, epoch: LeaseEpoch) -> Result<(), Error> {
        run_with_time_stopped(self.inner.release_claim(command, epoch)).await
    }
    async fn renew_session(&self, worker: &WorkerId, holder: &SessionHolder, ttl: Duration) -> Result<bool, Error> {
        run_with_time_stopped(self.inner.renew_session(worker, holder, ttl)).await
    }
    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        self.inner.session(worker).await
    }
    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        run_with_time_stopped(self.inner.replace_session(worker, replaced, holder, ttl)).await
    }
    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        self.inner.lost_claims(owner).await
    }
    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        self.inner.overdue_commands(owner).await
    }
    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        self.inner.open_commands(id).await
    }
    async fn due_timers(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        self.inner.due_timers(owner, limit).await
    }
    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time) -> Result<Option<Time>, Error> {
        self.inner.next_timer(owner, until).await
    }
    async fn send_message(&self, message: Message, priority: Priority) -> Result<(), Error> {
        run_with_time_stopped(self.inner.send_message(message, priority)).await
    }
    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        self.inner.inbox(owner, limit).await
    }
    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        self.inner.is_pending(key).await
    }
    async fn refuse_message(&self, key: MessageKey, reply: &str) -> Result<(), Error> {
        run_with_time_stopped(self.inner.refuse_message(key, reply)).await
    }
    async fn withdraw_message(&self, key: MessageKey) -> Result<bool, Error> {
        run_with_time_stopped(self.inner.withdraw_message(key)).await
    }
    async fn remove_old_rows(&self, old: OldRows) -> Result<RemovedRows, Error> {
        run_with_time_stopped(self.inner.remove_old_rows(old)).await
    }
    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        run_with_time_stopped(self.inner.put_playbook(path, text)).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        self.inner.playbook(hash).await
    }
    async fn catalog_entry(&self, path: &str, version: Option<u32>) -> Result<Option<CatalogEntry>, Error> {
        self.inner.catalog_entry(path, version).await
    }
    async fn catalog_versions(
        &self,
        path: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<CatalogVersion>, Error> {
        self.inner.catalog_versions(path, before, limit).await
    }
    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        self.inner.catalog().await
    }
    async fn adopt(&self, id: ExecutionId, me: &OwnerId, priority: Priority) -> Result<Adoption, Error> {
        run_with_time_stopped(self.inner.adopt(id, me, priority)).await
    }
    async fn abandoned_executions(&self) -> Result<Vec<ExecutionId>, Error> {
        self.inner.abandoned_executions().await
    }
    async fn wait_for_change(&self) {
        self.inner.wait_for_change().await;
    }
    async fn rebuild_projections(&self) -> Result<RebuildStats, Error> {
        run_with_time_stopped(self.inner.rebuild_projections()).await
    }
    async fn worker_claims(&self, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error> {
        self.inner.worker_claims(worker).await
    }
    async fn processes(&self) -> Result<Vec<StoreProcess>, Error> {
        self.inner.processes().await
    }
    async fn owner_of(&self, id: ExecutionId) -> Result<Option<StoreProcess>, Error> {
        self.inner.owner_of(id).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        self.inner.outbox(after, limit).await
    }
    async fn mark_published(&self, upto: u64) -> Result<(), Error> {
        run_with_time_stopped(self.inner.mark_published(upto)).await
    }
    fn sealed_store(&self) -> &dyn store::SealedStore {
        self.inner.sealed_store()
    }
    fn monitoring_store(&self) -> &dyn MonitoringStore {
        self
    }
    async fn put_token(&self, token: AccessTokenRow) -> Result<(), Error> {
        run_with_time_stopped(self.inner.put_token(token)).await
    }
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error> {
        self.inner.token_by_hash(hash).await
    }
    async fn tokens(&self) -> Result<Vec<AccessTokenRow>, Error> {
        self.inner.tokens().await
    }
    async fn revoke_token(&self, id: AccessTokenId) -> Result<(), Error> {
        run_with_time_stopped(self.inner.revoke_token(id)).await
    }
    async fn touch_token(&self, id: AccessTokenId) -> Result<(), Error> {
        run_with_time_stopped(self.inner.touch_token(id)).await
    }
    async fn add_audit_entry(&self, entry: AuditEntry) -> Result<(), Error> {
        run_with_time_stopped(self.inner.add_audit_entry(entry)).await
    }
    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.inner.audit_entries(after, limit).await
    }
    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        self.inner.setting(key).await
    }
    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        run_with_time_stopped(self.inner.set_setting_once(key, value)).await
    }
    fn check_health(&self) -> Result<(), Error> {
        self.inner.check_health()
    }
}

#[async_trait]
impl<S: Store> MonitoringStore for PausingStore<S> {
    async fn describe_worker(&self, worker: &WorkerId, holder: &SessionHolder, description: &str) -> Result<(), Error> {
        let monitoring = self.inner.monitoring_store();
        run_with_time_stopped(monitoring.describe_worker(worker, holder, description)).await
    }
    async fn worker_sessions(&self, limit: usize) -> Result<Vec<WorkerSessionRow>, Error> {
        self.inner.monitoring_store().worker_sessions(limit).await
    }
    async fn pending_pools(&self, limit: usize) -> Result<Vec<Name>, Error> {
        self.inner.monitoring_store().pending_pools(limit).await
    }
    async fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Result<Vec<PendingCommand>, Error> {
        self.inner.monitoring_store().pending_commands(scope, limit).await
    }
    async fn claimed_commands(&self, limit: usize) -> Result<Vec<ClaimedCommandRow>, Error> {
        self.inner.monitoring_store().claimed_commands(limit).await
    }
    async fn audit_entries_before(&self, before: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.inner.monitoring_store().audit_entries_before(before, limit).await
    }
    async fn size(&self, executions_max: u64) -> Result<StoreSize, Error> {
        self.inner.monitoring_store().size(executions_max).await
    }
}
