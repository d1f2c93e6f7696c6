//! Lines that user code prints while a task runs, with the task that printed them.

use serde::{Deserialize, Serialize};

use crate::id::{ExecutionId, Name};
use crate::time::Time;

/// One line printed by a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When it was printed.
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
    /// Counts the attempts from 1.
    pub attempt: u32,
    /// The stream it was printed to.
    pub stream: LogStream,
    /// The line without its line ending.
    pub text: String,
}

impl LogLine {
    /// Creates a stderr line by the worker, for the same task as this line.
    #[must_use]
    pub fn annotation(&self, text: String) -> Self {
        Self {
            stream: LogStream::Stderr,
            text,
            ..self.clone()
        }
    }
}

/// The stream that a line was printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
