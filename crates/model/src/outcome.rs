//! How a task ended. A task that fails is data: tools return an `Outcome`, policy decides what follows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::result_ref::ResultRef;

/// What a tool call came to, in the shape that templates and events show.
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
    /// The value, where it is kept inline; null beside a reference.
    #[serde(default)]
    pub result: Value,
    /// The fields that the task selects of an inline value; beside a reference they are in the reference.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub selected: Map<String, Value>,
    /// Where the body lives when it is too large to keep inline.
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
    /// The fields that are known without the body: selected ones, and of a stored body its small ones.
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
    /// What went wrong.
    pub error: TaskError,
    /// Duration, trace ids and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// Fields that only one kind of tool has.
    #[serde(flatten)]
    pub facets: Facets,
}

/// Stable fields of one kind of tool: `outcome.http.status`, `outcome.pg.code`, `outcome.py.exception_type`.
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
    /// A stable code a rule can match, such as `TIMEOUT`, `HTTP_503` or `REFERENCE_NOT_AVAILABLE`.
    pub code: String,
    /// One sentence for a person.
    pub message: String,
    /// Whether trying again may help.
    #[serde(default)]
    pub retryable: bool,
    /// Anything else the tool knows: `exit_code`, `line`, `column`, `step`, `task` …
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// The classes of failure a rule can match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The peer could not be reached.
    Connection,
    /// It took too long.
    Timeout,
    /// The peer asked for patience.
    RateLimit,
    /// Credentials were missing or refused.
    Auth,
    /// The thing does not exist.
    NotFound,
    /// The request was wrong.
    ClientError,
    /// The peer failed.
    ServerError,
    /// Data does not have the expected shape.
    Schema,
    /// Text could not be read.
    Parse,
    /// A template or script failed.
    Transform,
    /// A database could not be reached.
    DbConnection,
    /// A database constraint was violated.
    DbConstraint,
    /// The database chose this transaction as a deadlock victim.
    DbDeadlock,
    /// A statement took too long.
    DbTimeout,
    /// A body could not be stored or found.
    Storage,
    /// The execution was cancelled.
    Cancelled,
    /// Anything else.
    Unknown,
}

impl ErrorKind {
    /// Whether trying again may help when nothing more is known.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::Timeout
                | Self::RateLimit
                | Self::ServerError
                | Self::DbDeadlock
        )
    }
}

/// Codes of failures that come before anything is sent.
const NOT_SENT: [&str; 3] = ["HTTP_CONNECT", "SQLITE_CANTOPEN", "SQLITE_NOTADB"];

impl TaskError {
    /// An error with its kind's usual answer to "may trying again help?".
    pub fn new(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            retryable: kind.is_retryable(),
            details: Map::new(),
        }
    }

    /// Whether the call may have had its effect although it failed: it was under way when the answer was lost.
    ///
    /// So it is after a timeout, a connection that broke, a stop in the middle, and `UNKNOWN_OUTCOME`. A peer that
    /// was never reached had no effect: `HTTP_CONNECT` and its like say so, and the detail `sent: false`. Every other
    /// kind is an answer, and an answer is known.
    pub fn leaves_effect_unknown(&self) -> bool {
        let was_sent = self.details.get("sent") != Some(&Value::Bool(false))
            && !NOT_SENT.contains(&self.code.as_str());
        match self.kind {
            ErrorKind::Timeout
            | ErrorKind::Connection
            | ErrorKind::DbConnection
            | ErrorKind::Cancelled => was_sent,
            _ => self.code == "UNKNOWN_OUTCOME",
        }
    }

    /// The same error with one more detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl Outcome {
    /// Success with an inline value.
    pub fn ok(result: impl Into<Value>) -> Self {
        Self::Ok(Success {
            result: result.into(),
            ..Success::default()
        })
    }

    /// Failure.
    pub fn error(error: TaskError) -> Self {
        Self::Error(Failure {
            error,
            meta: Map::new(),
            facets: Facets::default(),
        })
    }

    /// The same outcome with kind-specific fields.
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

    /// The result as a list of results shows it: the value, the reference that stands for it, or null after a failure.
    pub fn shown(&self) -> Value {
        match self {
            Self::Ok(success) => match &success.reference {
                Some(reference) => serde_json::to_value(reference).unwrap_or_default(),
                None => success.result.clone(),
            },
            Self::Error(_) => Value::Null,
        }
    }

    /// The fields of the tool's own kind.
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
        let unsent = TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", "").with("sent", false);
        assert!(!unsent.leaves_effect_unknown());
    }
}
