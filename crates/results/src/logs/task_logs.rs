//! The interface of task log stores.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::{LogLevel, LogLine};
use model::time::Time;

use crate::Error;

/// Maximum size of the task log of an execution; further lines are dropped, and the log states that.
pub const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Last line of a full log.
pub(crate) const LOG_FULL_MESSAGE: &str = "the log is full; further lines are dropped";

/// Where to read in a log. A position is the one of a line, or `next_after` of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPosition {
    /// The first lines after a position; 0 is the start of the log.
    After(u64),
    /// The last lines before a position.
    Before(u64),
    /// The last lines of the log.
    End,
}

impl Default for LogPosition {
    fn default() -> Self {
        Self::After(0)
    }
}

/// Which lines of an execution to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Where to read.
    pub position: LogPosition,
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
    /// Only lines printed until this time.
    pub until: Option<Time>,
}

impl LogQuery {
    pub(crate) fn matches(&self, line: &LogLine) -> bool {
        let fits = |filter: &Option<Name>, name: &Name| filter.as_ref().is_none_or(|w| w == name);
        fits(&self.step, &line.step)
            && fits(&self.task, &line.task)
            && (self.iteration.is_none() || self.iteration == line.iteration)
            && self.attempt.is_none_or(|attempt| attempt == line.attempt)
            && self.until.is_none_or(|until| line.time <= until)
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

/// A stored line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLine {
    /// Its position: the following lines come after it.
    pub position: u64,
    /// The line.
    pub line: LogLine,
}

/// A page of lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// Lines, in the order in which they were stored.
    pub lines: Vec<StoredLine>,
    /// Position after these lines; equals the requested position if there are no new lines.
    pub next_after: u64,
    /// Whether other lines may precede these.
    pub has_earlier: bool,
}

impl LogPage {
    /// An empty page that follows a position.
    pub(crate) fn after(position: u64) -> Self {
        Self {
            lines: Vec::new(),
            next_after: position,
            has_earlier: position > 0,
        }
    }

    /// A page of lines that precede a position, or the end of the log if there is none. The lines are newest first.
    pub(crate) fn from_newest(mut lines: Vec<StoredLine>, before: Option<u64>, has_earlier: bool) -> Self {
        lines.reverse();
        let last = lines.last().map(|line| line.position);
        Self {
            next_after: last.or(before).unwrap_or(0),
            lines,
            has_earlier,
        }
    }

    /// The lines without their positions.
    pub fn into_lines(self) -> Vec<LogLine> {
        self.lines.into_iter().map(|stored| stored.line).collect()
    }
}

/// Stores the lines that tasks print.
#[async_trait]
pub trait TaskLogs: Send + Sync {
    /// Appends lines, in order. After an error some of them may be stored; appending them again duplicates these.
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error>;

    /// Reads lines of an execution; empty if it printed nothing.
    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error>;
}
