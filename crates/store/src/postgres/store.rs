//! One process's handle to a store in Postgres.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::time::Time;
use postgres::{Connector, PlanMode};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Store;
use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim};
use crate::commit::{Commit, CommitStatus, ExternalEventKey, Message, MessageKey, Priority};
use crate::error::Error;
use crate::execution_filter::{ExecutionFilter, FacetRow};
use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings};
use crate::monitoring::MonitoringStore;
use crate::postgres::notifications::{self, ChangeNotifier};
use crate::postgres::options::PostgresOptions;
use crate::postgres::pool::SessionPool;
use crate::postgres::registration::ProcessRegistration;
use crate::postgres::{access, append, iteration_reads, iterations, migrate, pooler, queries, rebuild, waits, writes};
use crate::rows::{
    Adoption, CatalogEntry, CatalogVersion, ClaimQuery, CommandClaim, ExecutionRow, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, RebuildStats, RemovedRows, ResultRow,
    SessionHolder, StepState, StoredExecution, WaitEntry, WorkerSession,
};
use crate::sealed::SealedStore;
use crate::wait_filter::WaitFilter;

/// Maximum duration of a commit, a claim or a query for due work.
const WORK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum duration of a list query.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// A store in Postgres, shared by every server on the same database.
pub struct PostgresStore {
    /// For commits, leases and control requests.
    work_pool: SessionPool,
    /// For lists, which may be slow.
    list_pool: SessionPool,
    registration: Arc<ProcessRegistration>,
    notifier: Arc<ChangeNotifier>,
    publishes: bool,
    tasks: [JoinHandle<()>; 2],
    /// Dropping it with the store stops the tasks.
    _stop: watch::Sender<()>,
}

impl PostgresStore {
    /// Opens the store, creates or updates its schema, and registers this process.
    pub async fn open(options: PostgresOptions) -> Result<Self, Error> {
        let connector = Connector::from_url(&options.url)?;
        pooler::refuse_pooler(&connector).await?;
        migrate::migrate(&connector).await?;
        let registration = ProcessRegistration::register(&connector, options.address, options.publishes).await?;
        let notifier = Arc::new(ChangeNotifier::default());
        let (stop, stop_receiver) = watch::channel(());
        let heartbeats = Arc::clone(&registration).run_heartbeats(connector.clone(), stop_receiver.clone());
        let notifications = notifications::run_notifications(
            Arc::clone(&notifier),
            connector.clone(),
            registration.owner.clone(),
            stop_receiver,
        );
        let list_size = (options.pool_size / 3).max(1);
        let work_size = options.pool_size.saturating_sub(list_size).max(1);
        Ok(Self {
            work_pool: SessionPool::new(connector.clone(), work_size, WORK_TIMEOUT, PlanMode::Generic),
            list_pool: SessionPool::new(connector, list_size, LIST_TIMEOUT, PlanMode::Custom),
            registration,
            notifier,
            publishes: options.publishes,
            tasks: [tokio::spawn(heartbeats), tokio::spawn(notifications)],
            _stop: stop,
        })
    }

    /// Connections for commits, leases and control requests.
    pub(super) fn work_pool(&self) -> &SessionPool {
        &self.work_pool
    }

    /// Connections for lists.
    pub(super) fn list_pool(&self) -> &SessionPool {
        &self.list_pool
    }

    /// Notifies the other processes if the write succeeded.
    fn notify_if_written<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_ok() {
            self.notifier.notify_peers();
        }
        result
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn now(&self) -> Time {
        self.registration.clock.now()
    }

    fn ids(&self, count: u32) -> EventId {
        self.registration.ids(count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        Ok(self.registration.owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        let results = append::append(&self.work_pool, commits, self.publishes).await;
        if results
            .iter()
            .any(|result| matches!(result, Ok(CommitStatus::Committed)))
        {
            self.notifier.notify_peers();
        }
        results
    }

    async fn load(&self, id: ExecutionId, snapshot_version: u32) -> Result<Option<StoredExecution>, Error> {
        queries::load(&self.work_pool, id, snapshot_version).await
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        queries::events(&self.list_pool, id, after, limit).await
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        queries::events_at(&self.work_pool, id, seqs).await
    }

    async fn external_events(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<ExternalEventKey>, Error> {
        queries::external_events(&self.work_pool, id, event_ids).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        queries::execution(&self.work_pool, id).await
    }

    async fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionRow>, Error> {
        queries::executions(&self.list_pool, filter, self.now()).await
    }

    async fn execution_facets(&self, filter: &ExecutionFilter) -> Result<Vec<FacetRow>, Error> {
        queries::execution_facets(&self.list_pool, filter, self.now()).await
    }

    async fn labels(&self, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        queries::labels(&self.list_pool, ids).await
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        queries::steps(&self.list_pool, id).await
    }

    async fn waits(&self, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error> {
        waits::waits(&self.list_pool, filter).await
    }

    async fn wait_count(&self, filter: &WaitFilter) -> Result<u64, Error> {
        waits::wait_count(&self.list_pool, filter).await
    }

    async fn awaited_signals(&self, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, Error> {
        waits::awaited_signals(&self.list_pool, ids).await
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        queries::results(&self.list_pool, id).await
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        iterations::loops(&self.list_pool, id).await
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        indices: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        iterations::iteration_events(&self.list_pool, id, run, indices).await
    }

    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        iterations::iteration_outcomes(&self.list_pool, id, run, range).await
    }

    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        iterations::loop_task(&self.list_pool, id, step, run, task).await
    }

    async fn failed_iterations(&self, id: ExecutionId, run: &StepRunId, limit: usize) -> Result<Vec<u64>, Error> {
        iterations::failed_iterations(&self.list_pool, id, run, limit).await
    }

    async fn iteration_rows(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        query: &IterationRowQuery,
    ) -> Result<Vec<IterationRow>, Error> {
        iteration_reads::iteration_rows(&self.list_pool, id, run, query).await
    }

    async fn iteration_timings(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
        appends_max: usize,
    ) -> Result<IterationTimings, Error> {
        iteration_reads::iteration_timings(&self.list_pool, id, run, &iterations, appends_max).await
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        iterations::iteration_count(&self.list_pool, id, run).await
    }

    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        iterations::outline(&self.list_pool, id, after, limit).await
    }

    async fn executions_with_permanent_bodies(&self) -> Result<Vec<ExecutionId>, Error> {
        queries::executions_with_permanent_bodies(&self.list_pool).await
    }

    async fn claim_commands(&self, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error> {
        writes::claim(&self.work_pool, query).await
    }

    async fn release_claim(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.notify_if_written(writes::release(&self.work_pool, command, lease_epoch).await)
    }

    async fn renew_session(&self, worker: &WorkerId, holder: &SessionHolder, ttl: Duration) -> Result<bool, Error> {
        writes::renew_session(&self.work_pool, worker, holder, self.now().after(ttl)).await
    }

    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        queries::session(&self.work_pool, worker, self.now()).await
    }

    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let expires_at = self.now().after(ttl);
        writes::replace_session(&self.work_pool, worker, replaced, holder, expires_at).await
    }

    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        queries::lost_claims(&self.work_pool, owner, self.now()).await
    }

    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        queries::overdue_commands(&self.work_pool, owner, self.now()).await
    }

    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        queries::open_commands(&self.list_pool, id).await
    }

    async fn due_timers(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        let due = queries::timers(&self.work_pool, owner, self.now(), limit).await?;
        Ok(due.into_iter().map(|(_, id, seq)| (id, seq)).collect())
    }

    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time) -> Result<Option<Time>, Error> {
        let next = queries::timers(&self.work_pool, owner, until, 1).await?;
        Ok(next.first().map(|(due, ..)| *due))
    }

    async fn send_message(&self, message: Message, _priority: Priority) -> Result<(), Error> {
        self.notify_if_written(writes::send(&self.work_pool, &message).await)
    }

    async fn refuse_message(&self, key: MessageKey, reply: &str) -> Result<(), Error> {
        self.notify_if_written(writes::refuse_message(&self.work_pool, key, reply).await)
    }

    async fn withdraw_message(&self, key: MessageKey) -> Result<bool, Error> {
        writes::withdraw_message(&self.work_pool, key).await
    }

    async fn remove_old_rows(&self, old: OldRows) -> Result<RemovedRows, Error> {
        writes::remove_old(&self.list_pool, old).await
    }

    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        queries::inbox(&self.work_pool, owner, limit, self.now()).await
    }

    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        queries::is_pending(&self.work_pool, key).await
    }

    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        self.notify_if_written(writes::put_playbook(&self.work_pool, path, text).await)
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        queries::playbook(&self.work_pool, hash).await
    }

    async fn catalog_entry(&self, path: &str, version: Option<u32>) -> Result<Option<CatalogEntry>, Error> {
        queries::catalog_entry(&self.work_pool, path, version).await
    }

    async fn catalog_versions(
        &self,
        path: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<CatalogVersion>, Error> {
        queries::catalog_versions(&self.list_pool, path, before, limit).await
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        queries::catalog(&self.list_pool).await
    }

    async fn adopt(&self, id: ExecutionId, new_owner: &OwnerId, _priority: Priority) -> Result<Adoption, Error> {
        self.notify_if_written(writes::adopt(&self.work_pool, id, new_owner, self.now()).await)
    }

    async fn abandoned_executions(&self) -> Result<Vec<ExecutionId>, Error> {
        queries::abandoned_executions(&self.work_pool, self.now()).await
    }

    async fn wait_for_change(&self) {
        self.notifier.wait().await;
    }

    async fn rebuild_projections(&self) -> Result<RebuildStats, Error> {
        rebuild::rebuild(&self.list_pool).await
    }

    async fn worker_claims(&self, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error> {
        access::worker_claims(&self.work_pool, worker).await
    }

    async fn processes(&self) -> Result<Vec<StoreProcess>, Error> {
        access::processes(&self.work_pool, self.now()).await
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<StoreProcess>, Error> {
        access::owner_of(&self.work_pool, id, self.now()).await
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        access::outbox(&self.list_pool, after, limit).await
    }

    async fn mark_published(&self, upto: u64) -> Result<(), Error> {
        access::mark_published(&self.list_pool, upto).await
    }

    fn sealed_store(&self) -> &dyn SealedStore {
        self
    }

    fn monitoring_store(&self) -> &dyn MonitoringStore {
        self
    }

    async fn put_token(&self, token: AccessTokenRow) -> Result<(), Error> {
        access::put_token(&self.work_pool, &token).await
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error> {
        access::token_by_hash(&self.work_pool, hash).await
    }

    async fn tokens(&self) -> Result<Vec<AccessTokenRow>, Error> {
        access::tokens(&self.list_pool).await
    }

    async fn revoke_token(&self, id: AccessTokenId) -> Result<(), Error> {
        access::revoke_token(&self.work_pool, id).await
    }

    async fn touch_token(&self, id: AccessTokenId) -> Result<(), Error> {
        access::touch_token(&self.work_pool, id).await
    }

    async fn add_audit_entry(&self, entry: AuditEntry) -> Result<(), Error> {
        access::audit(&self.work_pool, &entry).await
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        access::audit_entries(&self.list_pool, after, limit).await
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        access::setting(&self.work_pool, key).await
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        access::set_setting_once(&self.work_pool, key, value).await
    }

    fn check_health(&self) -> Result<(), Error> {
        if self.tasks.iter().any(JoinHandle::is_finished) {
            return Err(Error::Unavailable("a background task of the store stopped".into()));
        }
        if let Some(refusal) = self.registration.refusal() {
            return Err(refusal);
        }
        if !self.registration.is_alive_to_others() {
            return Err(Error::Unavailable("failed to write a heartbeat for 3 s".into()));
        }
        Ok(())
    }
}
