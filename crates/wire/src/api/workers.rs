//! Workers as operators see them: pools, sessions, leases, and the servers of the cluster.

use model::id::{CommandId, ExecutionId, Name, WorkerId};
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a worker sends about itself with each heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerDescription {
    /// Pool that the worker serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// Maximum number of commands that the worker runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Tool kinds that the worker can call. Default: every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// Version of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The workers of all servers on the store, with their leases.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WorkerOverview {
    /// Pools of live workers, by name.
    pub pools: Vec<WorkerPoolStatus>,
    /// Live workers, and those whose session expired within the last 10 minutes, by pool and name.
    pub workers: Vec<WorkerStatus>,
    /// Commands that workers hold, by worker.
    pub leases: Vec<LeaseEntry>,
    /// Processes that use the store.
    pub servers: Vec<ServerEntry>,
    /// Whether every worker and lease is listed. At most 1,000 workers and 2,000 leases are read.
    pub is_complete: bool,
}

/// A pool with its live workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerPoolStatus {
    /// Name of the pool; null for workers of older versions, which do not report it.
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// Number of live workers.
    pub workers: u32,
    /// Number of slots of these workers.
    pub slots: u32,
    /// Number of commands that these workers hold.
    pub leases: u32,
}

/// A worker's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStatus {
    /// Worker session.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// Whether the session has not expired.
    pub is_alive: bool,
    /// Pool that the worker serves; null if the worker does not report it.
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// Maximum number of commands that the worker runs at once; null if the worker does not report it.
    pub slots: Option<u32>,
    /// Tool kinds that the worker can call; null for every kind.
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// Version of the worker; null if the worker does not report it.
    pub version: Option<String>,
    /// Number of commands that the worker holds.
    pub leases: u32,
    /// Last heartbeat or claim; null if the session has expired.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub heartbeat_at: Option<Time>,
    /// When the session expires or expired.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Time,
}

/// A command that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseEntry {
    /// ID of the command.
    #[schema(value_type = String)]
    pub command_id: CommandId,
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Name of the run.
    #[schema(value_type = String)]
    pub name: Name,
    /// Step that the command runs.
    #[schema(value_type = String)]
    pub step: Name,
    /// The worker that holds it.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// When it was claimed; null if the worker's session was replaced since.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub claimed_at: Option<Time>,
    /// When the lease expires unless the worker renews its session; null without a session.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// Whether the lease has expired; the command then returns to the queue.
    pub is_expired: bool,
}

/// A process that uses the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerEntry {
    /// ID of the process, which owns runs.
    pub owner: String,
    /// URL at which other servers reach it, only for admins; null on a local store.
    pub address: Option<String>,
    /// Whether it is alive.
    pub is_alive: bool,
    /// Whether it is the server that sent this response.
    pub is_this: bool,
    /// Its last heartbeat; null on a local store, where a process holds a lock instead.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub heartbeat_at: Option<Time>,
}
