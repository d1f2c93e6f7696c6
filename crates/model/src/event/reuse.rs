//! What a run that does another one again takes over from it, by reference.

use serde::{Deserialize, Serialize};

use crate::event::Kind;
use crate::id::{ExecutionId, Name, Seq};
use crate::number_range::NumberRange;
use crate::outcome::TaskError;
use crate::raw::Raw;
use crate::result_ref::ResultRef;
use crate::template::LoopPointer;
use crate::time::Time;

/// The run that another one does again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rerun {
    /// The run asked to be done again.
    pub execution_id: ExecutionId,
    /// The first step that runs again; all do if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<Name>,
    /// The first iteration of that step's loop that runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_iteration: Option<u64>,
    /// The runs whose logs and bodies this one refers to: they are kept as long as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<ExecutionId>,
}

/// Something that another run recorded, taken over. It always names the run that did the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reused {
    /// The other run.
    pub execution_id: ExecutionId,
    /// The event there.
    pub seq: Seq,
    /// What it is.
    pub part: ReusedPart,
}

/// What is taken over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReusedPart {
    /// The latest outcome of one of a step's tasks; the event is its `task.done` or `task.failed`.
    Task {
        /// Whether it ended well.
        ok: bool,
    },
    /// A step's latest end, behind its tasks; the event is its boundary.
    Step(ReusedStep),
    /// Iterations of a loop that will run again; the event is its `loop.started`.
    Iterations(Box<ReusedIterations>),
}

/// How a step ended that is taken over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedStep {
    /// Whether it ended well.
    pub ok: bool,
    /// The label that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Name>,
    /// For a loop: where its results are, in the other run's log.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub loop_: Option<LoopPointer>,
    /// For a failure: what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// Iterations of a loop that are taken over, and the elements it ran over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedIterations {
    /// How many elements there are.
    pub total: u64,
    /// The elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Raw>,
    /// Where the elements live when they are too large for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection_ref: Option<Box<ResultRef>>,
    /// The elements as a rule, where they are the numbers of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<NumberRange>,
    /// The sha256 of the elements' JSON text; of a range, the sha256 of its rule's JSON text.
    pub sha256: String,
    /// Which iterations, and whose.
    pub items: Vec<ReusedItems>,
    /// What they write to `ctx` when the loop is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_ctx: Vec<(u64, Raw)>,
}

/// Iterations that one run recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedItems {
    /// The run.
    pub execution_id: ExecutionId,
    /// Its `loop.started` event.
    pub started: Seq,
    /// The last event of these iterations there.
    pub until: Seq,
    /// The iterations, as ranges `from..to`.
    pub ranges: Vec<(u64, u64)>,
}

/// A token that a run begins with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedToken {
    /// Where it stands.
    pub step: Name,
    /// Its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Raw>,
    /// The end of the step it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CameFrom>,
}

/// The end of a step, as the token that came from it knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CameFrom {
    /// The step.
    pub step: Name,
    /// Its boundary event in the other run's log.
    pub seq: Seq,
    /// How it ended.
    pub event: Kind,
    /// When.
    pub timestamp: Time,
}

impl ReusedIterations {
    /// Every index taken over, as ranges in order.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = self
            .items
            .iter()
            .flat_map(|items| items.ranges.iter().copied())
            .collect();
        ranges.sort_unstable();
        ranges
    }
}
