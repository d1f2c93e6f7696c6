//! The contract of every store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::time::Time;

use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim};
use crate::commit::{Commit, CommitStatus, ExternalEventKey, Message, MessageKey, Priority};
use crate::error::Error;
use crate::execution_filter::{ExecutionFilter, FacetRow};
use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings};
use crate::monitoring::MonitoringStore;
use crate::rows::{
    Adoption, CatalogEntry, CatalogVersion, ClaimQuery, CommandClaim, ExecutionRow, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, RebuildStats, RemovedRows, ResultRow,
    SessionHolder, StepState, StoredExecution, WaitEntry, WorkerSession,
};
use crate::sealed::SealedStore;
use crate::verify::{self, Damage, VerifyReport};
use crate::wait_filter::WaitFilter;

/// The setting that contains the refusal of a message.
pub(crate) fn refusal_key(key: MessageKey) -> String {
    format!("{REFUSAL_PREFIX}{}", key.from)
}

/// Key prefix of those settings; the ID of the message follows.
pub(crate) const REFUSAL_PREFIX: &str = "refused:";

/// Key prefix of settings that contain the execution of a `dedup` key.
pub const DEDUP_PREFIX: &str = "dedup:";

/// Key prefix of settings that describe an asynchronous batch of events; its request ID follows. Such a setting is
/// removed together with the one that records the end of the same batch.
pub const BATCH_PREFIX: &str = "batch:";

/// Key prefix of settings that record the end of an asynchronous batch; its request ID follows.
pub const BATCH_END_PREFIX: &str = "batch-end:";

/// Key prefix of settings that record the end of a session of the web client; its ID follows.
pub const ENDED_SESSION_PREFIX: &str = "ended-session:";

/// Whether a setting is removed when its retention has passed; every other setting is permanent.
pub(crate) fn has_retention(key: &str) -> bool {
    [DEDUP_PREFIX, REFUSAL_PREFIX, BATCH_END_PREFIX, ENDED_SESSION_PREFIX]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// A store. An `owner` argument limits a result to the executions that this process owns; `None` means all.
#[async_trait]
pub trait Store: Send + Sync {
    /// The store's clock, which alone decides about leases and timers.
    fn now(&self) -> Time;

    /// The first of `count` consecutive new IDs, for events and executions alike.
    fn ids(&self, count: u32) -> EventId;

    /// This process as an owner. It counts as alive from the first call until the store is closed.
    fn owner(&self) -> Result<OwnerId, Error>;

    /// Writes commits durably, in one transaction; those that cannot be written are left out. At most one commit per
    /// execution. Returns the results in the order of the commits.
    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>>;

    /// Writes one commit durably.
    async fn commit(&self, commit: Commit) -> Result<CommitStatus, Error> {
        let mut results = self.commit_all(vec![commit]).await;
        results.pop().expect("each commit has a result")
    }

    /// The data needed to continue an execution; snapshots of another version are ignored.
    async fn load(&self, id: ExecutionId, snapshot_version: u32) -> Result<Option<StoredExecution>, Error>;

    /// At most `limit` events after a sequence number, in order; fewer only if there are no more.
    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error>;

    /// The events at the given sequence numbers, ascending; missing ones are left out.
    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error>;

    /// Which of these client event IDs are in the log, with their sequence numbers and hashes.
    async fn external_events(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<ExternalEventKey>, Error>;

    /// One execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error>;

    /// Executions, newest first.
    async fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionRow>, Error>;

    /// The values to count of the executions that match a filter, newest first.
    async fn execution_facets(&self, filter: &ExecutionFilter) -> Result<Vec<FacetRow>, Error>;

    /// The labels of these executions; those without labels are left out.
    async fn labels(&self, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error>;

    /// The steps of an execution, by name.
    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error>;

    /// Tasks that wait for a signal, in the order of the filter.
    async fn waits(&self, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error>;

    /// The number of tasks that wait for a signal; counts at most `limit` of the filter.
    async fn wait_count(&self, filter: &WaitFilter) -> Result<u64, Error>;

    /// A signal that each of these executions waits for, if any: the first by name.
    async fn awaited_signals(&self, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, Error>;

    /// The bodies of an execution outside the log, by sequence number.
    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error>;

    /// The progress of each loop run of an execution, by step and run; only of runs with recorded iterations.
    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error>;

    /// The ends of tasks, attempts and iterations, and the manifests and policy decisions, of these iterations of a
    /// loop run, by sequence number. Reads only the appends that record them.
    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
    ) -> Result<Vec<Event>, Error>;

    /// The last outcome of the pipeline of each of these iterations of a loop run. Reads only the appends that record
    /// them.
    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error>;

    /// The latest ends of a task in the iterations of a loop: of the given run of the step, or else of the latest run that
    /// has any.
    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error>;

    /// The first `limit` failed iterations of a loop run, ascending; without those that failed before a retry.
    async fn failed_iterations(&self, id: ExecutionId, run: &StepRunId, limit: usize) -> Result<Vec<u64>, Error>;

    /// Rows of the index of a loop run's iterations. The cost depends only on the number of rows that are returned.
    async fn iteration_rows(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        query: &IterationRowQuery,
    ) -> Result<Vec<IterationRow>, Error>;

    /// When these iterations of a loop run ran. Reads at most `appends_max` of the appends that record them.
    async fn iteration_timings(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
        appends_max: usize,
    ) -> Result<IterationTimings, Error>;

    /// One past the highest recorded iteration of a loop run.
    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error>;

    /// At most `limit` events after a sequence number, in order, without appends that record only iterations; fewer
    /// only if there are no more.
    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error>;

    /// Executions with a permanent body.
    async fn executions_with_permanent_bodies(&self) -> Result<Vec<ExecutionId>, Error>;

    /// Claims pending commands for a worker, oldest first; none of paused or cancelling executions.
    async fn claim_commands(&self, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error>;

    /// Releases a claimed command, so that it is offered again. A claim that is not current changes nothing.
    async fn release_claim(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error>;

    /// Extends a worker's session, and with it its claims, to `ttl` from now. Starts a session if there is none for
    /// this worker. Returns false and changes nothing if the session has another holder, expired or not.
    async fn renew_session(&self, worker: &WorkerId, holder: &SessionHolder, ttl: Duration) -> Result<bool, Error>;

    /// The session of a worker.
    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error>;

    /// Replaces another holder's session, whose claims are then lost. Returns false and changes nothing if the session
    /// is not that holder's.
    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error>;

    /// Claims whose session has expired, was replaced or never existed.
    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error>;

    /// Pending commands that no worker claimed in time.
    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error>;

    /// The open commands of an execution, by sequence number.
    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error>;

    /// Timers that are due, earliest first.
    async fn due_timers(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<(ExecutionId, Seq)>, Error>;

    /// The due time of the next timer, if it is not later than `until`.
    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time) -> Result<Option<Time>, Error>;

    /// Sends a message from outside an execution. Sending the same key again changes nothing, even after consumption.
    async fn send_message(&self, message: Message, priority: Priority) -> Result<(), Error>;

    /// Messages that are not consumed yet, oldest first: to executions that the owner owns, that have no owner, or
    /// whose owner is dead. For messages that start an execution, the sender's owner counts.
    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error>;

    /// Whether a message was sent and is not consumed yet.
    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error>;

    /// Consumes a message without applying it, and stores the refusal for its sender. An already consumed message is
    /// unchanged.
    async fn refuse_message(&self, key: MessageKey, reply: &str) -> Result<(), Error>;

    /// The refusal of a message; `None` if the message was applied or is pending.
    async fn refusal(&self, key: MessageKey) -> Result<Option<String>, Error> {
        self.setting(&refusal_key(key)).await
    }

    /// Withdraws a message that is not consumed yet. Returns false if it was already consumed.
    async fn withdraw_message(&self, key: MessageKey) -> Result<bool, Error>;

    /// Removes rows whose retention has passed, a bounded number of each kind.
    async fn remove_old_rows(&self, old: OldRows) -> Result<RemovedRows, Error>;

    /// Registers a text; creates a new version only if it differs from the path's latest.
    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error>;

    /// The playbook with this hash.
    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error>;

    /// The given version of a path, or its latest.
    async fn catalog_entry(&self, path: &str, version: Option<u32>) -> Result<Option<CatalogEntry>, Error>;

    /// At most `limit` versions of a path, newest first; only those before a version, for the next page.
    async fn catalog_versions(
        &self,
        path: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<CatalogVersion>, Error>;

    /// The latest version of every path, by path.
    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error>;

    /// Takes ownership of an execution that has no owner, or whose owner is dead.
    async fn adopt(&self, id: ExecutionId, new_owner: &OwnerId, priority: Priority) -> Result<Adoption, Error>;

    /// Active executions whose owner is dead or missing, oldest first.
    async fn abandoned_executions(&self) -> Result<Vec<ExecutionId>, Error>;

    /// Returns when another process has committed, or after a short time; callers check in both cases.
    async fn wait_for_change(&self);

    /// Drops all projections and rebuilds them from the log.
    async fn rebuild_projections(&self) -> Result<RebuildStats, Error>;

    /// The commands that this worker has claimed, oldest claim first.
    async fn worker_claims(&self, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error>;

    /// The processes that use the store, including dead ones that are still recorded.
    async fn processes(&self) -> Result<Vec<StoreProcess>, Error>;

    /// The owner of an execution; `None` if it has no owner or does not exist.
    async fn owner_of(&self, id: ExecutionId) -> Result<Option<StoreProcess>, Error>;

    /// Appends after a position that wait to be published, in order. Appends that an open transaction may still
    /// precede are returned later. At most `limit`, but never only a part of a transaction.
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error>;

    /// Records that everything up to a position has been published.
    async fn mark_published(&self, upto: u64) -> Result<(), Error>;

    /// The store for encrypted values.
    fn sealed_store(&self) -> &dyn SealedStore;

    /// Reads for operators.
    fn monitoring_store(&self) -> &dyn MonitoringStore;

    /// Stores a new or changed access token.
    async fn put_token(&self, token: AccessTokenRow) -> Result<(), Error>;

    /// The token with this hash, even if it is expired or revoked.
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error>;

    /// Every token, oldest first.
    async fn tokens(&self) -> Result<Vec<AccessTokenRow>, Error>;

    /// Revokes a token from now on; the time of the first revocation stays.
    async fn revoke_token(&self, id: AccessTokenId) -> Result<(), Error>;

    /// Records that a token was used now.
    async fn touch_token(&self, id: AccessTokenId) -> Result<(), Error>;

    /// Adds an entry to the audit log.
    async fn add_audit_entry(&self, entry: AuditEntry) -> Result<(), Error>;

    /// At most `limit` entries of the audit log after a position, in order.
    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error>;

    /// A setting that all processes share; `cluster_secret` always exists.
    async fn setting(&self, key: &str) -> Result<Option<String>, Error>;

    /// Sets a setting that is not set yet. Returns the value that is stored now.
    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error>;

    /// Reads all data and reports damage.
    async fn verify(&self) -> Result<VerifyReport, Error> {
        verify::verify(self).await
    }

    /// The damage that the database itself finds in its files, and snapshots with a wrong checksum.
    async fn damaged_files(&self) -> Result<Vec<Damage>, Error> {
        Ok(Vec::new())
    }

    /// Checks that the store can be written, and that its background tasks are running.
    fn check_health(&self) -> Result<(), Error>;
}
