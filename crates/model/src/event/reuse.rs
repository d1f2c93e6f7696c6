//! What a rerun reuses from an earlier run, by reference.

use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::id::{ExecutionId, Name, Seq};
use crate::number_range::NumberRange;
use crate::outcome::TaskError;
use crate::raw::RawJson;
use crate::result_ref::ResultRef;
use crate::step_pointer::LoopPointer;
use crate::time::Time;

/// The origin of a rerun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RerunOrigin {
    /// The run that is rerun.
    pub execution_id: ExecutionId,
    /// The first step that runs again; `None` means all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<Name>,
    /// The first iteration of that step's loop that runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_iteration: Option<u64>,
    /// The runs whose logs and bodies this one refers to; they are retained as long as this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<ExecutionId>,
}

/// A reused record. It always names the run that did the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedRecord {
    /// The run that recorded it.
    pub execution_id: ExecutionId,
    /// The event in that run's log.
    pub seq: Seq,
    /// What is reused.
    pub part: ReusedPart,
}

/// What is reused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReusedPart {
    /// The latest outcome of a task; the event is its `task.done` or `task.failed`.
    Task {
        /// Whether the task succeeded.
        ok: bool,
    },
    /// The latest end of a step, after its tasks; the event is the one that ended the step.
    Step(ReusedStep),
    /// Iterations of a loop whose other iterations run again; the event is its `loop.started`.
    Iterations(Box<ReusedIterations>),
}

/// The end of a reused step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedStep {
    /// Whether the step succeeded.
    pub ok: bool,
    /// The label that finished last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Name>,
    /// For a loop: the location of its results in the other run's log.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub loop_: Option<LoopPointer>,
    /// The error of a failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// The reused iterations of a loop, and the items of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedIterations {
    /// The number of items.
    pub total: u64,
    /// The items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<RawJson>,
    /// Location of the items, if they are too large for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection_ref: Option<Box<ResultRef>>,
    /// The range, if the items are the numbers of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<NumberRange>,
    /// The sha256 of the items' JSON text; for a range, of the JSON text of the range.
    pub sha256: String,
    /// The reused iterations, by the run that recorded them.
    pub items: Vec<ReusedIterationSet>,
    /// The writes to `ctx` that are applied when the loop is done, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_ctx: Vec<(u64, RawJson)>,
}

/// Iterations that one run recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedIterationSet {
    /// The run.
    pub execution_id: ExecutionId,
    /// Its `loop.started` event.
    pub started: Seq,
    /// The last event of these iterations there.
    pub until: Seq,
    /// The iterations, as ranges `from..to`.
    pub ranges: Vec<(u64, u64)>,
}

/// A token that a rerun starts with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InitialToken {
    /// The step it is at.
    pub step: Name,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<RawJson>,
    /// The end of the step it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TokenOrigin>,
}

/// The end of a step that created a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenOrigin {
    /// The step.
    pub step: Name,
    /// The event that ended the step, in the other run's log.
    pub seq: Seq,
    /// The kind of that event.
    pub event: EventKind,
    /// The time of that event.
    pub timestamp: Time,
}

impl ReusedIterations {
    /// Returns all reused indexes as ordered ranges.
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
