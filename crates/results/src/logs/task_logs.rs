//! The interface of task log stores.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::LogLine;

use crate::Error;

/// Maximum size of the task log of an execution; further lines are dropped, and the log states that.
pub const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Last line of a full log.
pub(crate) const LOG_FULL_MESSAGE: &str = "the log is full; further lines are dropped";

/// Which lines of an execution to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Position after which to read: `next_after` of a page, or 0.
    pub after: u64,
    /// Maximum number of lines.
    pub limit: usize,
    /// Only lines of this step.
    pub step: Option<Name>,
    /// Only lines of tasks with this label.
    pub task: Option<Name>,
}

impl LogQuery {
    pub(crate) fn matches(&self, line: &LogLine) -> bool {
        let fits = |filter: &Option<Name>, name: &Name| filter.as_ref().is_none_or(|w| w == name);
        fits(&self.step, &line.step) && fits(&self.task, &line.task)
    }
}

/// A page of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// Lines, in the order in which they were stored.
    pub lines: Vec<LogLine>,
    /// Position after these lines; equals `after` if there are no new lines.
    pub next_after: u64,
}

/// Stores the lines that tasks print.
#[async_trait]
pub trait TaskLogs: Send + Sync {
    /// Appends lines, in order. After an error some of them may be stored; appending them again duplicates these.
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error>;

    /// Reads lines of an execution; empty if it printed nothing.
    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error>;
}
