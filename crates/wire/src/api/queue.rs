//! The queue: commands that no worker has claimed, and why.

use model::id::{CommandId, ExecutionId, Name};
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The commands that wait for workers, by pool and kinds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueueOverview {
    /// Pools with waiting commands, by pool and kinds.
    pub queues: Vec<QueueEntry>,
    /// The oldest 100 waiting commands of each pool.
    pub commands: Vec<WaitingCommand>,
    /// Whether every waiting command was read. At most 1,000 of each pool, 5,000 in all and 64 pools are read; the counts
    /// do not include others.
    pub is_complete: bool,
}

/// Waiting commands that need the same pool and kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueEntry {
    /// Pool whose workers may claim them.
    #[schema(value_type = String)]
    pub pool: Name,
    /// Tool kinds that a worker needs.
    #[schema(value_type = Vec<String>)]
    pub kinds: Vec<Name>,
    /// Number of commands.
    pub commands: u32,
    /// When the oldest one was offered.
    #[schema(value_type = String, format = DateTime)]
    pub oldest_at: Time,
    /// Why the oldest one waits.
    pub reason: WaitingReason,
}

/// The commands of a run that wait for workers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WaitingCommandList {
    /// Commands in the order in which they were issued.
    pub commands: Vec<WaitingCommand>,
    /// Whether every waiting command is listed. At most 200 are read.
    pub is_complete: bool,
}

/// A command that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingCommand {
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
    /// Pool whose workers may claim it.
    #[schema(value_type = String)]
    pub pool: Name,
    /// Tool kinds that a worker needs.
    #[schema(value_type = Vec<String>)]
    pub kinds: Vec<Name>,
    /// When it was offered.
    #[schema(value_type = String, format = DateTime)]
    pub issued_at: Time,
    /// Why it waits.
    pub reason: WaitingReason,
}

/// Why a command waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingReason {
    /// The cause.
    pub cause: WaitingCause,
    /// The cause as a sentence that names the pool, kinds or numbers.
    pub detail: String,
    /// What to do; null if nothing is needed.
    pub remedy: Option<String>,
}

/// The cause why a command waits. The first one that applies is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingCause {
    /// The run is paused.
    RunPaused,
    /// The run is being cancelled or has ended.
    RunStopping,
    /// The server that owns the run has stopped; another one adopts the run.
    OwnerGone,
    /// No live worker serves the pool.
    NoWorkerInPool,
    /// No live worker of the pool serves all kinds of the step.
    NoWorkerForKinds,
    /// All slots of the workers that can run it are in use.
    NoFreeSlot,
    /// A worker with a free slot is about to claim it.
    Starting,
}
