//! What operators look at: pending and claimed commands, worker sessions, the end of the audit log, and the size of the
//! store. Every list has a limit.

use async_trait::async_trait;
use model::command::Command;
use model::id::{ExecutionId, Name, WorkerId};
use model::status::RunStatus;
use model::time::Time;

use crate::access::AuditRow;
use crate::error::Error;
use crate::rows::{OwnerId, SessionHolder};

/// Which pending commands to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingScope {
    /// Those of a pool, oldest first.
    Pool(Name),
    /// Those of an execution, by sequence number.
    Execution(ExecutionId),
}

/// A command that no worker has claimed, with the state of its execution.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingCommand {
    /// The command.
    pub command: Command,
    /// The tool kinds that its step needs.
    pub kinds: Vec<Name>,
    /// When it was offered.
    pub issued_at: Time,
    /// Name of its execution.
    pub name: Name,
    /// Status of its execution.
    pub status: RunStatus,
    /// Whether its execution is being cancelled.
    pub is_cancelling: bool,
    /// The process that owns its execution.
    pub owner: Option<OwnerId>,
}

/// A command that a worker has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedCommandRow {
    /// The command.
    pub command: Command,
    /// The worker.
    pub worker: WorkerId,
    /// When it was claimed; `None` for a claim whose session was replaced.
    pub claimed_at: Option<Time>,
    /// When the worker's session, and with it the claim, expires; `None` without a session.
    pub expires_at: Option<Time>,
    /// Name of its execution.
    pub name: Name,
}

/// A worker's session with its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSessionRow {
    /// The worker.
    pub worker: WorkerId,
    /// What the worker last sent about itself, as a text that only the server interprets.
    pub description: Option<String>,
    /// When the session expires or expired.
    pub expires_at: Time,
    /// Whether it has not expired, by the store's clock.
    pub is_alive: bool,
}

/// The size of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSize {
    /// Bytes of the tables and their indexes, with the space that is free for reuse.
    pub bytes: u64,
    /// Number of executions, counted up to the requested limit.
    pub executions: u64,
}

/// Reads for operators, and the descriptions of workers.
#[async_trait]
pub trait MonitoringStore: Send + Sync {
    /// Stores the description of a worker in its session; changes nothing if the session has another holder.
    async fn describe_worker(&self, worker: &WorkerId, holder: &SessionHolder, description: &str) -> Result<(), Error>;

    /// At most `limit` sessions, the one that expires last first.
    async fn worker_sessions(&self, limit: usize) -> Result<Vec<WorkerSessionRow>, Error>;

    /// At most `limit` pools with pending commands, by name. Reads one row of each pool.
    async fn pending_pools(&self, limit: usize) -> Result<Vec<Name>, Error>;

    /// At most `limit` pending commands.
    async fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Result<Vec<PendingCommand>, Error>;

    /// At most `limit` claimed commands, by worker.
    async fn claimed_commands(&self, limit: usize) -> Result<Vec<ClaimedCommandRow>, Error>;

    /// At most `limit` entries of the audit log before a position, newest first.
    async fn audit_entries_before(&self, before: u64, limit: usize) -> Result<Vec<AuditRow>, Error>;

    /// The size of the store; counts at most `executions_max` executions.
    async fn size(&self, executions_max: u64) -> Result<StoreSize, Error>;
}
