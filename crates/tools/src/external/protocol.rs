//! Lines that the worker and the process of an external tool exchange.

use model::outcome::{ErrorKind, Outcome, TaskError};
use model::task_log::LogStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::Call;

/// Line to the process.
#[derive(Serialize)]
pub(super) struct CallLine<'a> {
    /// Number of the call; responses repeat it.
    pub(super) id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<CallBody<'a>>,
    /// Whether the call is cancelled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancel: bool,
}

/// Call as sent to the process.
#[derive(Serialize)]
pub(super) struct CallBody<'a> {
    kind: &'a str,
    fields: &'a Map<String, Value>,
    input: &'a Map<String, Value>,
    timeout_s: Option<f64>,
    idempotency_key: &'a str,
    attempt: u32,
    base_dir: String,
}

/// Line from the process.
#[derive(Deserialize)]
pub(super) struct ReplyLine {
    pub(super) id: u64,
    pub(super) log: Option<LogEntry>,
    pub(super) outcome: Option<ReplyOutcome>,
}

/// Log entry.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum LogEntry {
    Text(String),
    Line { text: String, stream: Option<String> },
}

/// Outcome that the process returns.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub(super) enum ReplyOutcome {
    Ok {
        #[serde(default)]
        result: Value,
    },
    Error {
        error: ReplyError,
    },
}

/// Error that the process returns.
#[derive(Deserialize)]
pub(super) struct ReplyError {
    #[serde(default = "unknown")]
    kind: ErrorKind,
    code: Option<String>,
    #[serde(default)]
    message: String,
    retryable: Option<bool>,
    #[serde(flatten)]
    details: Map<String, Value>,
}

fn unknown() -> ErrorKind {
    ErrorKind::Unknown
}

impl<'a> CallBody<'a> {
    pub(super) fn from_call(call: &'a Call) -> Self {
        Self {
            kind: call.kind.as_str(),
            fields: &call.fields,
            input: &call.input,
            timeout_s: call.timeout.total.map(|total| total.as_secs_f64()),
            idempotency_key: &call.idempotency_key,
            attempt: call.attempt,
            base_dir: call.site.base_dir.display().to_string(),
        }
    }
}

impl LogEntry {
    pub(super) fn stream_and_text(&self) -> (LogStream, &str) {
        match self {
            Self::Text(text) => (LogStream::Stdout, text),
            Self::Line { text, stream } => match stream.as_deref() {
                Some("stderr") => (LogStream::Stderr, text),
                _ => (LogStream::Stdout, text),
            },
        }
    }
}

impl ReplyOutcome {
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Self::Ok { result } => Outcome::ok(result),
            Self::Error { error } => {
                let code = error.code.filter(|code| is_valid_code(code));
                let code = code.unwrap_or_else(|| "TOOL_FAILED".to_owned());
                let task_error = TaskError::new(error.kind, code, error.message);
                Outcome::error(TaskError {
                    retryable: error.retryable.unwrap_or(task_error.retryable),
                    details: error.details,
                    ..task_error
                })
            }
        }
    }
}

/// Whether the code has the format of NoETL's error codes, so that rules can match it.
fn is_valid_code(code: &str) -> bool {
    !code.is_empty()
        && code.len() <= 100
        && code
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
