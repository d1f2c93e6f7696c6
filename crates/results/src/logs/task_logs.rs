//! The interface of task log stores.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::{LogLevel, LogLine};

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
    /// Only lines of this iteration.
    pub iteration: Option<u64>,
    /// Only lines of attempts with this number.
    pub attempt: Option<u32>,
    /// Only lines of at least this level.
    pub level: Option<LogLevel>,
    /// Only lines that contain this text, in upper or lower case.
    pub text: Option<String>,
}

impl LogQuery {
    pub(crate) fn matches(&self, line: &LogLine) -> bool {
        let fits = |filter: &Option<Name>, name: &Name| filter.as_ref().is_none_or(|w| w == name);
        fits(&self.step, &line.step)
            && fits(&self.task, &line.task)
            && (self.iteration.is_none() || self.iteration == line.iteration)
            && self.attempt.is_none_or(|attempt| attempt == line.attempt)
            && self.level.is_none_or(|level| line.level() >= level)
            && self
                .text
                .as_deref()
                .is_none_or(|text| contains_ignoring_case(&line.text, text))
    }
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
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
