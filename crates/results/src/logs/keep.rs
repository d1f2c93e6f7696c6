//! The promise every store of task logs keeps.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::LogLine;

use crate::Error;

/// What an execution may print; the rest is dropped, and the log says so.
pub const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What is said where lines are dropped.
pub(crate) const FULL: &str = "the log is full; further lines are dropped";

/// Which lines of an execution are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogAsk {
    /// Those after this place: a page's `next_after`, or 0.
    pub after: u64,
    /// At most so many.
    pub limit: usize,
    /// Those of this step.
    pub step: Option<Name>,
    /// Those of tasks with this label.
    pub task: Option<Name>,
}

impl LogAsk {
    pub(crate) fn wants(&self, line: &LogLine) -> bool {
        let fits = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|w| w == name);
        fits(&self.step, &line.step) && fits(&self.task, &line.task)
    }
}

/// Some lines, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// In the order in which they were taken.
    pub lines: Vec<LogLine>,
    /// The place after them; the same as asked if there is nothing new.
    pub next_after: u64,
}

/// Keeps what tasks print.
#[async_trait]
pub trait TaskLogs: Send + Sync {
    /// Takes lines, in order. After a failure some of them may be there; taken again they are there twice.
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error>;

    /// Reads lines of an execution; one that printed nothing has none.
    async fn read(&self, execution: ExecutionId, ask: &LogAsk) -> Result<LogPage, Error>;
}
