//! Messages to and from an evaluation process.

use std::time::{Duration, Instant};

use model::outcome::{ErrorKind, TaskError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rhai::run_script;
use crate::transform::run_jq;

/// Language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Language {
    Jq,
    Rhai,
}

/// A user's program and its input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evaluation {
    pub(crate) language: Language,
    pub(crate) program: String,
    pub(crate) input: Value,
    /// Time limit in milliseconds.
    pub(crate) millis: u64,
}

/// A message of an evaluation process. Every evaluation ends with a value or an error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EvaluationReply {
    /// A line that the program printed.
    Printed(String),
    Value(Value),
    Error(Box<TaskError>),
}

impl Language {
    /// Name of the program's kind in messages.
    pub(crate) fn program_name(self) -> &'static str {
        match self {
            Self::Jq => "jq program",
            Self::Rhai => "rhai script",
        }
    }

    /// Error of an interrupted evaluation.
    pub(crate) fn interrupted_error(self, cause: &str) -> TaskError {
        let code = match self {
            Self::Jq => "JQ_ERROR",
            Self::Rhai => "RHAI_ERROR",
        };
        let message = format!("the {} was interrupted: {cause}", self.program_name());
        TaskError::new(ErrorKind::Transform, code, message)
    }
}

impl Evaluation {
    /// Evaluates the program on this thread. `print` receives the lines that it prints.
    pub(crate) fn evaluate(self, print: impl Fn(&str) + Send + Sync + 'static) -> Result<Value, TaskError> {
        let limit = Duration::from_millis(self.millis);
        match self.language {
            Language::Jq => run_jq(&self.program, self.input, Instant::now() + limit),
            Language::Rhai => run_script(&self.program, self.input, limit, print),
        }
    }
}
