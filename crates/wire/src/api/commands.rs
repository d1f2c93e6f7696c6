//! Commands: claims, heartbeats, and data that a worker reads while it runs a command.

use std::time::Duration;

use model::command::ClaimId;
use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::step_pointer::LoopPointer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::workers::WorkerDescription;
use crate::event::WireEvent;
use crate::transport::{ClaimedCommand, CommandNotice};

/// Request of a worker for commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Worker session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// Pool that the worker serves.
    #[serde(default = "default_pool")]
    #[schema(value_type = String)]
    pub pool: Name,
    /// Tool kinds that the worker can call. Default: every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// Maximum number of commands.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1024)]
    pub max: u32,
    /// How long to wait for the first command, in milliseconds.
    #[serde(default)]
    #[schema(maximum = 30000)]
    pub wait_ms: u64,
}

impl ClaimRequest {
    /// How long to wait for the first command.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }
}

fn default_pool() -> Name {
    Name::from("default")
}

fn one() -> u32 {
    1
}

/// Claimed commands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClaimResponse {
    /// Commands with their leases and the data needed to run them.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<ClaimedCommand>,
}

/// Heartbeat of a worker with its claims. If it omits a claim for too long, the server assumes that the worker never
/// received the command, and offers it again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatRequest {
    /// Worker session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// Commands that the worker holds, with their lease epochs.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    #[serde(rename = "holds")]
    pub claims: Vec<ClaimId>,
    /// What the worker sends about itself.
    #[serde(flatten)]
    pub description: WorkerDescription,
}

impl HeartbeatRequest {
    /// A heartbeat of a worker with these claims, without a description.
    pub fn new(worker: WorkerId, claims: Vec<ClaimId>) -> Self {
        Self {
            worker,
            claims,
            description: WorkerDescription::default(),
        }
    }
}

/// Registration of a worker.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionRequest {
    /// First heartbeat.
    #[serde(flatten)]
    pub heartbeat: HeartbeatRequest,
    /// Whether to create a session secret. The worker then sends it with every request under its name.
    #[serde(default)]
    pub session_secret: bool,
}

/// A registered worker session.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    /// Instructions for commands that the worker holds.
    #[schema(value_type = Vec<Object>)]
    #[serde(rename = "told")]
    pub notices: Vec<CommandNotice>,
    /// Session secret, if one was requested; send it in the header `X-Noetl-Session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_secret: Option<String>,
}

/// Request that identifies a worker session, for deregistering and for long polls.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WorkerRequest {
    /// Worker session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
}

/// Instructions for a worker.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NoticesResponse {
    /// Instructions for commands that the worker holds.
    #[schema(value_type = Vec<Object>)]
    #[serde(rename = "told")]
    pub notices: Vec<CommandNotice>,
}

/// A worker in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerEntry {
    /// Worker session.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// Pool that the worker serves.
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// Maximum number of commands that the worker runs at once.
    pub slots: Option<u32>,
    /// Number of commands that the worker holds now.
    #[serde(rename = "holds")]
    pub claims: u32,
}

/// Events that a pipeline needs again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoadEventsRequest {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Sequence numbers of the events.
    #[schema(value_type = Vec<u64>, max_items = 10000)]
    pub seqs: Vec<Seq>,
}

/// The requested events; events that do not exist are omitted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoadEventsResponse {
    /// Events with their sequence numbers, in ascending order.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<(Seq, WireEvent)>,
}

impl LoadEventsResponse {
    /// Converts events for sending.
    pub fn from_events(events: &[Event]) -> Self {
        let pairs = events.iter().map(|event| (event.seq, WireEvent::from_event(event)));
        Self {
            events: pairs.collect(),
        }
    }
}

/// Request for the results of a loop.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoopResultsRequest {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Events of the loop in the log.
    #[schema(value_type = Object)]
    pub pointer: LoopPointer,
}

/// An address to resolve.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResolveRefRequest {
    /// `noetl://execution/…`
    #[serde(rename = "ref")]
    pub reference: String,
}

/// Request of one server to the owner of a run, for the data that a worker needs to run claimed commands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildCommandsRequest {
    /// Worker that holds the commands.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// Commands with their lease epochs.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<(CommandId, LeaseEpoch)>,
}

/// The requested commands; finished commands are omitted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildCommandsResponse {
    /// Commands with their leases and the data needed to run them.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<ClaimedCommand>,
}
