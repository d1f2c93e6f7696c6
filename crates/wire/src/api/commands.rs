//! Work on its way out: claims, signs of life, and what a worker reads while it runs a command.

use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::template::LoopPointer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::WireEvent;
use crate::transport::{Claimed, Held, Told};

/// A worker asks for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Its session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// The pool it serves.
    #[serde(default = "default_pool")]
    #[schema(value_type = String)]
    pub pool: Name,
    /// The tool kinds it can call; none means every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub kinds: Option<Vec<Name>>,
    /// At most so many commands.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1024)]
    pub max: u32,
    /// How long to wait for the first of them.
    #[serde(default)]
    #[schema(maximum = 30000)]
    pub wait_ms: u64,
}

fn default_pool() -> Name {
    Name::from("default")
}

fn one() -> u32 {
    1
}

/// Commands handed out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClaimAnswer {
    /// Each with its claim, and what is needed to run it.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<Claimed>,
}

/// A sign of life.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatRequest {
    /// The worker's session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// The commands it holds.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub holds: Vec<Held>,
    /// The pool it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// How many commands it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}

/// A worker begins.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionRequest {
    /// Its first heartbeat.
    #[serde(flatten)]
    pub heartbeat: HeartbeatRequest,
    /// Whether it wants a session secret, which it then sends with every call under its name.
    #[serde(default)]
    pub session_secret: bool,
}

/// A session has begun.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    /// The commands it holds that it should go on with in another way.
    #[schema(value_type = Vec<Object>)]
    pub told: Vec<Told>,
    /// The secret of the session, if one was asked for: sent in the header `X-Noetl-Session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_secret: Option<String>,
}

/// A worker ends.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LeaveRequest {
    /// Its session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
}

/// What a worker is told.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ToldAnswer {
    /// The commands it holds that it should go on with in another way.
    #[schema(value_type = Vec<Object>)]
    pub told: Vec<Told>,
}

/// A pool of workers as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerPool {
    /// The worker's session.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// The pool it serves.
    #[schema(value_type = Option<String>)]
    pub pool: Option<Name>,
    /// How many commands it runs at once.
    pub slots: Option<u32>,
    /// How many commands it holds now.
    pub holds: u32,
}

/// Events that a pipeline needs again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventsAtRequest {
    /// The execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Their places.
    #[schema(value_type = Vec<u64>, max_items = 10000)]
    pub seqs: Vec<Seq>,
}

/// Those events; ones that do not exist are left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventsAtAnswer {
    /// In ascending order, each with its place.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<(Seq, WireEvent)>,
}

impl EventsAtAnswer {
    /// Events as they are sent.
    pub fn of(events: &[Event]) -> Self {
        let pairs = events.iter().map(|event| (event.seq, WireEvent::of(event)));
        Self {
            events: pairs.collect(),
        }
    }
}

/// A loop whose results are wanted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoopRequest {
    /// The execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Where the loop stands in the log.
    #[schema(value_type = Object)]
    pub pointer: LoopPointer,
}

/// An address to look up.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LookUpRequest {
    /// `noetl://execution/…`
    #[serde(rename = "ref")]
    pub reference: String,
}

/// One server asks the driver of an execution for what a worker needs to run commands that it has claimed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildRequest {
    /// Who holds them.
    #[schema(value_type = String)]
    pub worker: WorkerId,
    /// The commands, each with its claim.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<(CommandId, LeaseEpoch)>,
}

/// What was found of it; commands that are over are left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildAnswer {
    /// Each with its claim, and what is needed to run it.
    #[schema(value_type = Vec<Object>)]
    pub commands: Vec<Claimed>,
}
