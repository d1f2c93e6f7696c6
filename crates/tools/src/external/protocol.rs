//! The lines that a program and its worker exchange.

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{Call, Stream};

/// A line to the program.
#[derive(Serialize)]
pub(super) struct Asked<'a> {
    /// Which call; the answers carry it.
    pub(super) id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<AskedCall<'a>>,
    /// Whether the call should end now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancel: bool,
}

/// A call as the program sees it.
#[derive(Serialize)]
pub(super) struct AskedCall<'a> {
    kind: &'a str,
    fields: &'a Map<String, Value>,
    input: &'a Map<String, Value>,
    timeout_s: Option<f64>,
    idempotency_key: &'a str,
    attempt: u32,
    base_dir: String,
}

/// A line from the program.
#[derive(Deserialize)]
pub(super) struct Answered {
    pub(super) id: u64,
    pub(super) log: Option<Logged>,
    pub(super) outcome: Option<Told>,
}

/// A line for the log.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Logged {
    Text(String),
    Line {
        text: String,
        stream: Option<String>,
    },
}

/// How a call ended, as the program tells it.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub(super) enum Told {
    Ok {
        #[serde(default)]
        result: Value,
    },
    Error {
        error: ToldError,
    },
}

/// What went wrong, as the program tells it.
#[derive(Deserialize)]
pub(super) struct ToldError {
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

impl<'a> AskedCall<'a> {
    pub(super) fn of(call: &'a Call) -> Self {
        Self {
            kind: call.kind.as_str(),
            fields: &call.fields,
            input: &call.input,
            timeout_s: call.timeout.total.map(|total| total.as_secs_f64()),
            idempotency_key: &call.idempotency_key,
            attempt: call.attempt,
            base_dir: call.place.base_dir.display().to_string(),
        }
    }
}

impl Logged {
    pub(super) fn parts(&self) -> (Stream, &str) {
        match self {
            Self::Text(text) => (Stream::Stdout, text),
            Self::Line { text, stream } => match stream.as_deref() {
                Some("stderr") => (Stream::Stderr, text),
                _ => (Stream::Stdout, text),
            },
        }
    }
}

impl Told {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Ok { result } => Outcome::ok(result),
            Self::Error { error } => {
                let code = error.code.filter(|code| is_code(code));
                let code = code.unwrap_or_else(|| "TOOL_FAILED".to_owned());
                let told = TaskError::new(error.kind, code, error.message);
                Outcome::error(TaskError {
                    retryable: error.retryable.unwrap_or(told.retryable),
                    details: error.details,
                    ..told
                })
            }
        }
    }
}

/// Whether a rule can match it as it matches the codes of other kinds.
fn is_code(code: &str) -> bool {
    !code.is_empty()
        && code.len() <= 100
        && code
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
