//! The outcome of a task. A failed task is data: tools return an `Outcome`, and the task's policy decides what follows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::result_ref::ResultRef;

/// The outcome of a tool call, in the form that templates and events show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome {
    /// The call succeeded.
    Ok(Success),
    /// The call failed.
    Error(Failure),
}

/// A call that succeeded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// The value, if it is stored inline; null if there is a reference.
    #[serde(default)]
    pub result: Value,
    /// The selected fields of an inline value; with a reference, they are in the reference.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub selected: Map<String, Value>,
    /// Location of the body, if it is too large to store inline.
    #[serde(default, rename = "reference", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Box<ResultRef>>,
    /// Duration, trace ids and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// Fields that only one kind of tool has.
    #[serde(flatten)]
    pub facets: Facets,
}

impl Success {
    /// The fields that are available without the body: selected fields, and small fields of a stored body.
    pub fn extracted(&self) -> &Map<String, Value> {
        match &self.reference {
            Some(reference) => &reference.extracted,
            None => &self.selected,
        }
    }
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The error.
    pub error: TaskError,
    /// Duration, trace ids and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// Fields that only one kind of tool has.
    #[serde(flatten)]
    pub facets: Facets,
}

/// Fields of one kind of tool, with stable names: `outcome.http.status`, `outcome.pg.code`,
/// `outcome.py.exception_type`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facets {
    /// HTTP: `status`, `headers`, `retry_after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Value>,
    /// SQL: `code`, `sqlstate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pg: Option<Value>,
    /// Python: `exception_type`, `traceback`, `line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub py: Option<Value>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskError {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// A stable code that rules can match, such as `TIMEOUT`, `HTTP_503` or `REFERENCE_NOT_AVAILABLE`.
    pub code: String,
    /// One sentence for users.
    pub message: String,
    /// Whether a retry may succeed.
    #[serde(default)]
    pub retryable: bool,
    /// Further details: `exit_code`, `line`, `column`, `step`, `task` …
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// The classes of failure that rules can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The remote host could not be reached.
    Connection,
    /// The call timed out.
    Timeout,
    /// The remote host limits the rate of requests.
    RateLimit,
    /// Credentials are missing or were rejected.
    Auth,
    /// The requested object does not exist.
    NotFound,
    /// The request was invalid.
    ClientError,
    /// The remote host failed.
    ServerError,
    /// Data does not have the expected shape.
    Schema,
    /// Text could not be parsed.
    Parse,
    /// A template or script failed.
    Transform,
    /// A database could not be reached.
    DbConnection,
    /// A database constraint was violated.
    DbConstraint,
    /// The database chose this transaction as a deadlock victim.
    DbDeadlock,
    /// A statement timed out.
    DbTimeout,
    /// A body could not be stored or found.
    Storage,
    /// The execution was cancelled.
    Cancelled,
    /// Anything else.
    Unknown,
}

impl ErrorKind {
    /// Whether a retry may succeed, judged by the kind alone.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Connection | Self::Timeout | Self::RateLimit | Self::ServerError | Self::DbDeadlock
        )
    }
}

/// Codes of failures that happen before anything is sent.
const NOT_SENT_CODES: [&str; 3] = ["HTTP_CONNECT", "SQLITE_CANTOPEN", "SQLITE_NOTADB"];

impl TaskError {
    /// Creates an error that is retryable if its kind is.
    pub fn new(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            retryable: kind.is_retryable(),
            details: Map::new(),
        }
    }

    /// Creates an error that is not retryable, whatever its kind.
    pub fn permanent(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            retryable: false,
            ..Self::new(kind, code, message)
        }
    }

    /// Whether the call may have had its effect although it failed, because the response was lost.
    ///
    /// This is so after a timeout, a broken connection, a cancellation during the call, and `UNKNOWN_OUTCOME`. If
    /// nothing was sent (`HTTP_CONNECT` and similar codes, or the detail `sent: false`), there was no effect. All other
    /// kinds are responses, so the effect is known.
    pub fn leaves_effect_unknown(&self) -> bool {
        let was_sent =
            self.details.get("sent") != Some(&Value::Bool(false)) && !NOT_SENT_CODES.contains(&self.code.as_str());
        match self.kind {
            ErrorKind::Timeout | ErrorKind::Connection | ErrorKind::DbConnection | ErrorKind::Cancelled => was_sent,
            _ => self.code == "UNKNOWN_OUTCOME",
        }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl Outcome {
    /// Creates a success with an inline value.
    pub fn ok(result: impl Into<Value>) -> Self {
        Self::Ok(Success {
            result: result.into(),
            ..Success::default()
        })
    }

    /// Creates a failure.
    pub fn error(error: TaskError) -> Self {
        Self::Error(Failure {
            error,
            meta: Map::new(),
            facets: Facets::default(),
        })
    }

    /// Sets the fields of the tool's kind.
    #[must_use]
    pub fn with_facets(mut self, facets: Facets) -> Self {
        match &mut self {
            Self::Ok(success) => success.facets = facets,
            Self::Error(failure) => failure.facets = facets,
        }
        self
    }

    /// Whether the call succeeded.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// The error, if it failed.
    pub fn failure(&self) -> Option<&TaskError> {
        match self {
            Self::Ok(_) => None,
            Self::Error(failure) => Some(&failure.error),
        }
    }

    /// Returns the result for a list of results: the value, the reference to it, or null after a failure.
    pub fn to_listed_value(&self) -> Value {
        match self {
            Self::Ok(success) => match &success.reference {
                Some(reference) => serde_json::to_value(reference).unwrap_or_default(),
                None => success.result.clone(),
            },
            Self::Error(_) => Value::Null,
        }
    }

    /// The fields of the tool's kind.
    pub fn facets(&self) -> &Facets {
        match self {
            Self::Ok(success) => &success.facets,
            Self::Error(failure) => &failure.facets,
        }
    }

    /// Duration, trace ids and the like.
    pub fn meta_mut(&mut self) -> &mut Map<String, Value> {
        match self {
            Self::Ok(success) => &mut success.meta,
            Self::Error(failure) => &mut failure.meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_unknown_only_where_the_answer_was_lost() {
        let unknown = |kind, code| TaskError::new(kind, code, "").leaves_effect_unknown();
        assert!(unknown(ErrorKind::Timeout, "TIMEOUT"));
        assert!(unknown(ErrorKind::Connection, "HTTP_PROTOCOL"));
        assert!(unknown(ErrorKind::Unknown, "UNKNOWN_OUTCOME"));
        assert!(!unknown(ErrorKind::Connection, "HTTP_CONNECT"));
        assert!(!unknown(ErrorKind::ServerError, "HTTP_500"));
        assert!(!unknown(ErrorKind::DbTimeout, "SQLITE_BUSY"));
        let unsent = TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", "").with_detail("sent", false);
        assert!(!unsent.leaves_effect_unknown());
    }
}
