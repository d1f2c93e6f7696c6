//! What tasks print: sent by workers, read by people.

use model::task_log::LogLine;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Lines that tasks printed, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogsRequest {
    /// Each with the execution, step and task that it is of.
    #[schema(value_type = Vec<Object>)]
    pub lines: Vec<LogLine>,
}

/// The lines are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogsTaken {
    /// So many of them; those of executions that do not exist are left out.
    pub taken: u64,
}

/// Some of the lines that a run's tasks printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLines {
    /// In the order in which they came.
    #[schema(value_type = Vec<Object>)]
    pub lines: Vec<LogLine>,
    /// What to give as `after` for those that follow.
    pub next_after: u64,
}
