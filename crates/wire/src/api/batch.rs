//! Events on their way in, several at a time.

use model::command::ReportEnd;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::WireEvent;
use crate::transport::{Claimed, Verdict};

/// Events of one execution, in order. With `command_id` it is a worker's report on a command it holds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// The execution; an integer or a decimal string.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Who sends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub worker_id: Option<WorkerId>,
    /// What happened.
    #[schema(max_items = 256)]
    pub events: Vec<WireEvent>,
    /// The command that all of them are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub command_id: Option<CommandId>,
    /// The claim that the command is held under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub lease_epoch: Option<LeaseEpoch>,
    /// Whether the worker is done with the command.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub end: ReportEnd,
    /// The pool the worker serves, for commands handed over with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// The tool kinds the worker can call; none means every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// How many further commands the worker takes at once.
    #[serde(default)]
    pub free: u32,
}

/// One event was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventAnswer {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    /// Its place in the log; none where it needs no row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub seq: Option<Seq>,
    /// Whether it was there before.
    #[serde(default)]
    pub duplicate: bool,
    /// What became of it.
    #[serde(default)]
    pub status: EventState,
}

/// What became of an event that was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// It is in the log, at `seq`.
    #[default]
    Recorded,
    /// The same event was in the log before, at `seq`.
    Duplicate,
    /// The log had recorded what it says: a later word on an end, or a begin that follows from an earlier event.
    Known,
    /// The server records what it says itself: what workers say of commands, of routing and of a loop's end.
    Acknowledged,
}

/// A batch was taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// What the batch is known by.
    pub request_id: String,
    /// How it stands.
    pub status: BatchState,
    /// Its events, in order; none for a report under `command_id`, or while the batch waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventAnswer>,
    /// How the worker goes on with its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub verdict: Option<Verdict>,
    /// Commands handed over in the same breath, already claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub next: Vec<Claimed>,
}

/// How a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchState {
    /// It is durable and waits to be decided.
    Accepted,
    /// It is being decided.
    Processing,
    /// Every event of it is in the log.
    Completed,
    /// It was refused.
    Failed,
}

/// How a batch stands, for those who ask later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchStatus {
    /// What the batch is known by.
    pub request_id: String,
    /// The execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// How it stands.
    pub status: BatchState,
    /// How many events it holds.
    pub events: u32,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub error: Option<model::outcome::TaskError>,
}
