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

    /// Its level: the first level that its beginning names, or an error if it is the start of a traceback or an
    /// exception on standard error.
    pub fn level(&self) -> LogLevel {
        let start = self
            .text
            .char_indices()
            .nth(LEVEL_WITHIN)
            .map_or(self.text.len(), |(end, _)| end);
        let mut names = self.text[..start].split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if let Some(level) = names.find_map(level_of_name) {
            return level;
        }
        let is_failure = self.text.starts_with("Traceback ") || is_exception(&self.text);
        match self.stream {
            LogStream::Stderr if is_failure => LogLevel::Error,
            LogStream::Stdout | LogStream::Stderr => LogLevel::Info,
        }
    }
}

/// A level is searched for in this many characters at the beginning of a line, where loggers write it.
const LEVEL_WITHIN: usize = 48;

fn level_of_name(name: &str) -> Option<LogLevel> {
    match name {
        "ERROR" | "CRITICAL" | "FATAL" | "PANIC" | "SEVERE" => Some(LogLevel::Error),
        "WARN" | "WARNING" => Some(LogLevel::Warn),
        "INFO" | "NOTICE" => Some(LogLevel::Info),
        "DEBUG" | "TRACE" => Some(LogLevel::Debug),
        _ => None,
    }
}

/// Whether a line is the last one of a Python traceback, such as `ValueError: …`.
fn is_exception(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    let is_path = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    is_path && (name.ends_with("Error") || name.ends_with("Exception"))
}

/// How severe a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for developers.
    Debug,
    /// Everything else.
    Info,
    /// A warning.
    Warn,
    /// An error.
    Error,
}

impl LogLevel {
    /// Its name in filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn level(stream: LogStream, text: &str) -> LogLevel {
        let line = LogLine {
            time: Time(0),
            execution: ExecutionId(1),
            step: "a".into(),
            run: 1,
            iteration: None,
            task: "t".into(),
            visit: 1,
            attempt: 1,
            stream,
            text: text.to_owned(),
        };
        line.level()
    }

    #[test]
    fn the_level_of_a_line_is_the_one_that_its_beginning_names() {
        let stdout = |text| level(LogStream::Stdout, text);
        assert_eq!(stdout("ERROR:root:no route"), LogLevel::Error);
        assert_eq!(stdout("2026-01-02 10:00:00,123 - app - WARNING - slow"), LogLevel::Warn);
        assert_eq!(stdout("[debug] lower case is text"), LogLevel::Info);
        assert_eq!(stdout("INFO retrying after ERROR"), LogLevel::Info);
        assert_eq!(
            stdout("no level here, but later in a long line there is an ERROR"),
            LogLevel::Info
        );
    }

    #[test]
    fn a_traceback_on_standard_error_is_an_error() {
        let stderr = |text| level(LogStream::Stderr, text);
        assert_eq!(stderr("Traceback (most recent call last):"), LogLevel::Error);
        assert_eq!(stderr("requests.exceptions.HTTPError: 500"), LogLevel::Error);
        assert_eq!(stderr("42%|████      | 1/3"), LogLevel::Info);
        assert_eq!(
            level(LogStream::Stdout, "ValueError: printed by a program"),
            LogLevel::Info
        );
    }
}
