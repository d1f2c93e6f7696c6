//! When the steps, tasks and attempts of a run ran.

use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{ByIterationStatus, GraphStatus, IterationStatus};

/// The runs of steps in the order of their start, with their tasks and attempts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionTimeline {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The last event of the run that the timeline includes.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Start of the run.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// End of the run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// The time of the response; what has not ended lasts until then.
    #[schema(value_type = String, format = DateTime)]
    pub now: Time,
    /// Whether the timeline has every step run, task and attempt. It has at most 5,000 of them, from at most 50,000 events
    /// of steps, and the bands of at most 20 loops.
    pub is_complete: bool,
    /// Step runs.
    pub steps: Vec<TimelineStep>,
}

/// A run of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineStep {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The run of the step, from 1.
    pub run: u32,
    /// Its status.
    pub status: GraphStatus,
    /// When it was scheduled; it is queued from then until its start.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub queued_at: Option<Time>,
    /// When its work started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// Whether it is on the critical path: the step runs that the end of the run waited for, each because it was the last
    /// to release the next one.
    pub is_critical: bool,
    /// Whether its result was reused from an earlier run.
    pub is_reused: bool,
    /// Its tasks in the order of their start; those of iterations are not listed.
    pub tasks: Vec<TimelineTask>,
    /// Its loop.
    #[serde(rename = "loop")]
    pub loop_: Option<TimelineLoop>,
}

/// A run of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineTask {
    /// Its label.
    #[schema(value_type = String)]
    pub task: Name,
    /// Counts its runs in the step run from 1.
    pub visit: u32,
    /// Its status.
    pub status: GraphStatus,
    /// When it started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// Its attempts in order.
    pub attempts: Vec<TimelineAttempt>,
}

/// An attempt of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// Its status.
    pub status: GraphStatus,
    /// When it started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
}

/// The iterations of a loop over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineLoop {
    /// Number of items.
    pub total: u64,
    /// Number of iterations that succeeded.
    pub succeeded: u64,
    /// Number of iterations that failed.
    pub failed: u64,
    /// Start of the first bin of `band`.
    #[schema(value_type = String, format = DateTime)]
    pub from: Time,
    /// Length of a bin, in microseconds.
    pub bin_us: u64,
    /// Number of measured iterations that ended in each bin, by status; an empty column has none.
    pub band: ByIterationStatus<Vec<u64>>,
    /// Number of measured iterations.
    pub measured: u64,
    /// Whether every iteration that ended was measured; otherwise a sample of the loop was, evenly distributed over its
    /// indices.
    pub is_complete: bool,
    /// The slowest of the measured iterations and the first failed ones, at most 50 together, in the order of their start.
    pub iterations: Vec<TimelineIteration>,
}

/// An iteration of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineIteration {
    /// Its index.
    pub iteration: u64,
    /// Its status.
    pub status: IterationStatus,
    /// When it started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// Most attempts of one of its tasks.
    pub attempts: u32,
}
