//! What user code prints while a task runs: the lines, and where each came from.

use serde::{Deserialize, Serialize};

use crate::id::{ExecutionId, Name};
use crate::time::Time;

/// One line a task printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When.
    pub time: Time,
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: Name,
    /// Counts the step's runs from 1.
    pub run: u32,
    /// The loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// The task's label.
    pub task: Name,
    /// Counts the entries of that label from 1.
    pub visit: u32,
    /// Counts the tries from 1.
    pub attempt: u32,
    /// Where it was printed to.
    pub stream: LogStream,
    /// The line, without its end.
    pub text: String,
}

impl LogLine {
    /// A word of ours beside what a task printed.
    #[must_use]
    pub fn remark(&self, text: String) -> Self {
        Self {
            stream: LogStream::Stderr,
            text,
            ..self.clone()
        }
    }
}

/// The stream a line was printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
