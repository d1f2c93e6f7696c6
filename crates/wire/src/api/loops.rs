//! The iterations of a loop, as columns: one cell an iteration, or one cell a range of them.

use model::id::{ExecutionId, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The status of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IterationStatus {
    /// It succeeded, or its result was reused.
    Success,
    /// It has not started, or it waits for a worker, a time, a signal or a child run.
    Waiting,
    /// It is running.
    Running,
    /// A task failed and is tried again.
    Retrying,
    /// The loop or the run ended before it did.
    Cancelled,
    /// It failed.
    Error,
}

impl IterationStatus {
    /// All statuses, the worst last.
    pub const ALL: [Self; 6] = [
        Self::Success,
        Self::Waiting,
        Self::Running,
        Self::Retrying,
        Self::Cancelled,
        Self::Error,
    ];

    /// Its letter in [`LoopCells::statuses`].
    pub fn letter(self) -> char {
        match self {
            Self::Success => 's',
            Self::Waiting => 'w',
            Self::Running => 'r',
            Self::Retrying => 't',
            Self::Cancelled => 'c',
            Self::Error => 'e',
        }
    }
}

/// One value for each status of iterations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByIterationStatus<T> {
    /// Not started, or waiting for a worker, a time, a signal or a child run.
    pub waiting: T,
    /// Running.
    pub running: T,
    /// A task failed and is tried again.
    pub retrying: T,
    /// Succeeded, or reused.
    pub success: T,
    /// Failed.
    pub error: T,
    /// Ended by the end of the loop or the run.
    pub cancelled: T,
}

impl<T> ByIterationStatus<T> {
    /// The value of a status.
    pub fn get(&self, status: IterationStatus) -> &T {
        match status {
            IterationStatus::Waiting => &self.waiting,
            IterationStatus::Running => &self.running,
            IterationStatus::Retrying => &self.retrying,
            IterationStatus::Success => &self.success,
            IterationStatus::Error => &self.error,
            IterationStatus::Cancelled => &self.cancelled,
        }
    }

    /// The value of a status, to change it.
    pub fn get_mut(&mut self, status: IterationStatus) -> &mut T {
        match status {
            IterationStatus::Waiting => &mut self.waiting,
            IterationStatus::Running => &mut self.running,
            IterationStatus::Retrying => &mut self.retrying,
            IterationStatus::Success => &mut self.success,
            IterationStatus::Error => &mut self.error,
            IterationStatus::Cancelled => &mut self.cancelled,
        }
    }
}

/// The iterations of a run of a loop. Columns have one entry for each cell; cells are in index order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoopCells {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The run of the step, from 1.
    pub run: u32,
    /// The runs of the step that are loops, ascending; of more than 100 only the latest.
    pub runs: Vec<u32>,
    /// Number of items; a cursor loop may claim more.
    pub total: u64,
    /// Whether `total` can still grow.
    pub may_grow: bool,
    /// The first iteration of the cells.
    pub from: u64,
    /// One past the last iteration of the cells.
    pub to: u64,
    /// Number of iterations that a cell covers; the last cell may cover fewer.
    pub cell_size: u64,
    /// The worst status of each cell, as one letter: `e` error, `c` cancelled, `t` retrying, `r` running, `w` waiting,
    /// `s` success, from the worst to the best.
    pub statuses: String,
    /// Number of iterations of each cell with a status. A column without any is empty, and so are all columns if a cell
    /// is one iteration.
    pub counts: ByIterationStatus<Vec<u64>>,
    /// Number of iterations of all cells with a status.
    pub totals: ByIterationStatus<u64>,
    /// The longest duration in each cell, in microseconds; null where none was measured. Absent for `by=status`.
    pub durations_us: Option<Vec<Option<u64>>>,
    /// Most attempts of a task in each cell; null where none was measured. Absent for `by=status`.
    pub attempts: Option<Vec<Option<u32>>>,
    /// Whether the status of every iteration is exact. It is not if more than 3,000,000 rows would have to be read, or if
    /// a loop stopped early: then iterations that were stopped between two tasks may count as succeeded.
    pub is_complete: bool,
    /// Whether `durations_us` and `attempts` come from a sample: 64 iterations of each cell.
    pub is_sampled: bool,
}

/// How long the iterations of a run of a loop took.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoopDurations {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The run of the step, from 1.
    pub run: u32,
    /// Number of iterations that were measured.
    pub measured: u64,
    /// Whether every iteration that ended was measured. Of a range of more than 20,000 iterations, 256 blocks of 64
    /// iterations are measured, evenly distributed over the range.
    pub is_complete: bool,
    /// The median, in microseconds.
    pub median_us: Option<u64>,
    /// The duration that 95 of 100 iterations do not exceed, in microseconds.
    pub p95_us: Option<u64>,
    /// The longest duration, in microseconds.
    pub max_us: Option<u64>,
    /// Adjacent bins, from the shortest to the longest measured duration.
    pub bins: Vec<DurationBin>,
}

/// Number of iterations whose durations are in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DurationBin {
    /// The shortest duration of the bin, in microseconds.
    pub from_us: u64,
    /// One past the longest duration of the bin, in microseconds.
    pub to_us: u64,
    /// Number of iterations.
    pub count: u64,
    /// Number of failed ones among them.
    pub failed: u64,
}
