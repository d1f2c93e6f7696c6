//! Batches of events from clients and workers.

use model::command::ReportEnd;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::log_schemas::TaskErrorSchema;
use crate::event::WireEvent;
use crate::transport::{ClaimedCommand, Verdict};

/// Events of one run, in order. With `command_id` the batch is a worker's report on a command that it holds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// Run ID, an integer or a decimal string.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Worker that sends the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub worker_id: Option<WorkerId>,
    /// Events, in order.
    #[schema(max_items = 256)]
    pub events: Vec<WireEvent>,
    /// Command that all events are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub command_id: Option<CommandId>,
    /// Lease epoch of the worker's lease on the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub lease_epoch: Option<LeaseEpoch>,
    /// Whether the worker is done with the command.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub end: ReportEnd,
    /// Pool that the worker serves, for commands assigned in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// Tool kinds that the worker can call. Default: every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// Number of further commands that the worker can run now.
    #[serde(default)]
    pub free: u32,
}

/// An accepted event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventResponse {
    /// Event ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    /// Position of the event in the log; absent if the event needs no row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub seq: Option<Seq>,
    /// Whether the event was already recorded.
    #[serde(default)]
    pub duplicate: bool,
    /// How the event was recorded.
    #[serde(default)]
    pub status: IngestStatus,
}

/// How an accepted event was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestStatus {
    /// The event is in the log, at `seq`.
    #[default]
    Recorded,
    /// The same event was already in the log, at `seq`.
    Duplicate,
    /// The log already records this fact: a repeated end, or a start that follows from an earlier event.
    Known,
    /// The server records this fact itself: worker events about commands, routing and the end of a loop.
    Acknowledged,
}

/// An accepted batch.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchResponse {
    /// ID of the batch.
    pub request_id: String,
    /// Status of the batch.
    pub status: BatchState,
    /// Events of the batch, in order; absent for a report with `command_id`, and while the batch is queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventResponse>,
    /// How the worker continues with its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub verdict: Option<Verdict>,
    /// Commands that were assigned to this worker in the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub next: Vec<ClaimedCommand>,
}

/// Status of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchState {
    /// The batch is stored and queued.
    Accepted,
    /// The batch is being processed.
    Processing,
    /// All events of the batch are in the log.
    Completed,
    /// The batch was rejected.
    Failed,
}

/// Status of a batch, for later requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchStatusResponse {
    /// ID of the batch.
    pub request_id: String,
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status of the batch.
    pub status: BatchState,
    /// Number of events in the batch.
    pub events: u32,
    /// Error of a failed batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TaskErrorSchema>)]
    pub error: Option<model::outcome::TaskError>,
}
