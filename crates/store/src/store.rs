//! The promise every store keeps.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{
    CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId,
};
use model::time::Time;

use crate::access::{AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow};
use crate::commit::{Commit, Committed, Foreign, Message, MessageKey, Priority};
use crate::error::Error;
use crate::rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, Rebuilt, Recorded,
    RemovedRows, ResultRow, SessionHolder, StepState, WorkerSession,
};
use crate::safe::Safe;
use crate::verify::{self, Damage, Verified};

/// The setting that holds the answer to a message that was not carried out.
pub(crate) fn refusal_key(key: MessageKey) -> String {
    format!("{REFUSED}{}", key.from)
}

/// How the names of those settings begin; the id of the message follows.
pub(crate) const REFUSED: &str = "refused:";

/// How the names of settings begin that hold the execution of a `dedup` word.
pub const DEDUP: &str = "dedup:";

/// How the names of settings begin that describe an asynchronous batch of events; its request ID follows. Such a setting
/// is removed together with the one that holds the end of the same batch.
pub const BATCH: &str = "batch:";

/// How the names of settings begin that hold the end of an asynchronous batch; its request ID follows.
pub const BATCH_END: &str = "batch-end:";

/// Whether a setting is removed when its retention has passed; every other setting is permanent.
pub(crate) fn has_retention(key: &str) -> bool {
    [DEDUP, REFUSED, BATCH_END]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// A store. An `owner` argument narrows an answer to the executions that process drives; none means all.
#[async_trait]
pub trait Store: Send + Sync {
    /// The store's clock: leases and timers are judged by it alone.
    fn now(&self) -> Time;

    /// The first of `count` consecutive fresh ids, for events and executions alike.
    fn ids(&self, count: u32) -> EventId;

    /// This process as an owner, alive from the first call on for as long as the store is open.
    fn owner(&self) -> Result<OwnerId, Error>;

    /// Writes commits durably, in one transaction; those that cannot be written are left out. At most one of each
    /// execution. Answers in the order of the commits.
    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>>;

    /// Writes one commit durably.
    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let mut answers = self.commit_all(vec![commit]).await;
        answers.pop().expect("each commit is answered")
    }

    /// What is needed to go on with an execution; snapshots of another version are passed over.
    async fn load(&self, id: ExecutionId, snapshot_version: u32)
    -> Result<Option<Recorded>, Error>;

    /// At most `limit` events after a seq, in order; fewer only where there are no more.
    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error>;

    /// The events at the given seqs, in ascending order; those that do not exist are left out.
    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error>;

    /// Which of these ids from outside are in the log, where, and with what content.
    async fn foreign(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<Foreign>, Error>;

    /// One execution.
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error>;

    /// Executions, newest first.
    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error>;

    /// The steps of an execution, by name.
    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error>;

    /// The bodies an execution keeps outside the log, by seq.
    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error>;

    /// How far each run of a loop in an execution has come, by step and run; only those that have iterations on record.
    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error>;

    /// The ends of tasks, attempts and iterations, and the manifests and policy decisions, of these iterations of a loop
    /// run, by seq. Reads only the appends that record them.
    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
    ) -> Result<Vec<Event>, Error>;

    /// The last outcome of each of some iterations of a loop run: what its pipeline came to. Reads only the appends that
    /// record them.
    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error>;

    /// The latest ends of a task in iterations of a loop: of the given run of the step, or else of the latest run that has
    /// any.
    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error>;

    /// The first `limit` iterations of a loop run that failed, ascending; none that failed before its run was retried.
    async fn failed_iterations(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        limit: usize,
    ) -> Result<Vec<u64>, Error>;

    /// One past the highest iteration of a loop run that is recorded.
    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error>;

    /// At most `limit` events after a seq, in order, without those of appends that record nothing but iterations; fewer
    /// only where there are no more.
    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize)
    -> Result<Vec<Event>, Error>;

    /// Executions that keep a body for good.
    async fn lasting_runs(&self) -> Result<Vec<ExecutionId>, Error>;

    /// Hands out pending commands, oldest first; none of paused or cancelling executions.
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error>;

    /// Offers a claimed command again; a claim that is not current changes nothing.
    async fn release(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error>;

    /// Keeps a worker's session, and with it its claims, for `ttl` from now. Begins one if there is none under this name.
    /// Answers false and changes nothing if the session under this name has another holder, expired or not.
    async fn renew(
        &self,
        worker: &WorkerId,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error>;

    /// The session under a worker's name.
    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error>;

    /// Begins a session in the place of another holder's, whose claims are lost from then on. Answers false and changes
    /// nothing if the session under this name is not that holder's.
    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error>;

    /// Claims whose session has expired, was replaced or never existed.
    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error>;

    /// Pending commands that nobody took in time.
    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error>;

    /// The commands of an execution that are not over, by seq.
    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error>;

    /// Timers that are due, earliest first.
    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error>;

    /// When the next timer is due, if that is not later than a time.
    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time)
    -> Result<Option<Time>, Error>;

    /// Sends a message from outside an execution; the same key again changes nothing, consumed or not.
    async fn send(&self, message: Message, priority: Priority) -> Result<(), Error>;

    /// Messages not consumed yet, oldest first: to executions that the owner drives, that nobody drives, or whose driver
    /// is dead; for new ones their sender's driver counts.
    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error>;

    /// Whether a message was sent and is not consumed yet.
    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error>;

    /// Consumes a message that is not carried out, and keeps the answer for its sender. One that was consumed before
    /// stays as it was.
    async fn refuse_message(&self, key: MessageKey, answer: &str) -> Result<(), Error>;

    /// The answer to a message that was not carried out; none if it was carried out, or is pending.
    async fn refusal(&self, key: MessageKey) -> Result<Option<String>, Error> {
        self.setting(&refusal_key(key)).await
    }

    /// Takes back a message that nobody has consumed; false if it was consumed before.
    async fn take_back(&self, key: MessageKey) -> Result<bool, Error>;

    /// Removes rows whose retention has passed, a bounded number of each kind.
    async fn remove_old(&self, old: OldRows) -> Result<RemovedRows, Error>;

    /// Registers a text; a new version only if it differs from the path's latest.
    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error>;

    /// The playbook with this hash.
    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error>;

    /// The given version of a path, or its latest.
    async fn latest(&self, path: &str, version: Option<u32>)
    -> Result<Option<CatalogEntry>, Error>;

    /// The latest version of every path, by path.
    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error>;

    /// Takes an execution that nobody drives, or whose driver is dead.
    async fn adopt(
        &self,
        id: ExecutionId,
        me: &OwnerId,
        priority: Priority,
    ) -> Result<Adoption, Error>;

    /// Executions that go on, or should, and whose driver is dead or was never named, oldest first.
    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error>;

    /// Resolves when another process has committed something, or after a short while; look again either way.
    async fn changed(&self);

    /// Drops every projection and folds it again from the log.
    async fn rebuild_projections(&self) -> Result<Rebuilt, Error>;

    /// What this worker holds, oldest claim first.
    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error>;

    /// The processes that use the store, the dead ones among them while they are remembered.
    async fn peers(&self) -> Result<Vec<Peer>, Error>;

    /// Who drives an execution; nobody if none does or there is no such execution.
    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error>;

    /// Appends that wait to be published and come after a position, in order; those that an open transaction might yet
    /// come before are given later. At most `limit`, but more rather than half of a transaction.
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error>;

    /// Everything up to a position has been published.
    async fn outbox_done(&self, upto: u64) -> Result<(), Error>;

    /// Where sealed values are kept.
    fn safe(&self) -> &dyn Safe;

    /// Keeps a token, or what changed about it.
    async fn put_token(&self, token: TokenRow) -> Result<(), Error>;

    /// The token with this hash, expired and revoked ones too.
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error>;

    /// Every token, oldest first.
    async fn tokens(&self) -> Result<Vec<TokenRow>, Error>;

    /// Revokes a token from now on; the first time stands.
    async fn revoke_token(&self, id: AccessId) -> Result<(), Error>;

    /// Remembers that a token was shown now.
    async fn touch_token(&self, id: AccessId) -> Result<(), Error>;

    /// Adds to the audit trail.
    async fn audit(&self, entry: AuditEntry) -> Result<(), Error>;

    /// At most `limit` entries of the audit trail after a place, in order.
    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error>;

    /// A setting that all processes share; `cluster_secret` is always there.
    async fn setting(&self, key: &str) -> Result<Option<String>, Error>;

    /// Sets what nobody has set yet; answers what holds from now on.
    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error>;

    /// Reads everything and tells what is damaged.
    async fn verify(&self) -> Result<Verified, Error> {
        verify::verify(self).await
    }

    /// What the database itself finds damaged in its files, and snapshots that are not whole.
    async fn damaged_files(&self) -> Result<Vec<Damage>, Error> {
        Ok(Vec::new())
    }

    /// Whether the store can be written and everything it runs in the background lives.
    fn health(&self) -> Result<(), Error>;
}
