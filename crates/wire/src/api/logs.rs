//! Output of tasks: sent by workers, read by clients.

use model::task_log::{LogLevel, LogLine};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::log_schemas::LogLineSchema;

/// Lines that tasks printed, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppendLogsRequest {
    /// Lines with their run, step and task.
    #[schema(value_type = Vec<LogLineSchema>)]
    pub lines: Vec<LogLine>,
}

/// Stored lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppendLogsResponse {
    /// Number of stored lines; lines of runs that do not exist are omitted.
    #[serde(rename = "taken")]
    pub accepted: u64,
}

/// A line with its level and its position in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its position: `after` this reads the following lines, `before` this the preceding ones.
    #[serde(default)]
    pub position: u64,
    /// The line.
    #[serde(flatten)]
    pub line: LogLine,
    /// How severe it is.
    pub level: LogLevel,
}

impl LogEntry {
    /// A line at a position.
    pub fn new(position: u64, line: LogLine) -> Self {
        Self {
            position,
            level: line.level(),
            line,
        }
    }
}

/// Lines that the tasks of a run printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogsResponse {
    /// Lines with `level` and `position`, in the order in which they were stored.
    #[schema(value_type = Vec<LogLineSchema>)]
    pub lines: Vec<LogEntry>,
    /// Value for `after` to get the following lines.
    pub next_after: u64,
    /// Whether other lines that match may precede these.
    #[serde(default)]
    pub has_earlier: bool,
}
