//! Errors of body stores, with the codes that tasks and the API show.

use std::path::PathBuf;

use model::result_ref::{BodyScope, ResultRef};

/// Why a body could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body does not exist.
    #[error(
        "stored result `{uri}` not found; run the task that produced it again, for example with `do: jump, to: previous`"
    )]
    NotAvailable {
        /// URI of the reference.
        uri: String,
    },
    /// The content of the body does not match its hash.
    #[error("stored result `{uri}` is corrupt; restore `{}` from a backup, or run the task that produced it again", file.display())]
    Corrupt {
        /// URI of the reference.
        uri: String,
        /// File or location of the body.
        file: PathBuf,
    },
    /// The disk is full.
    #[error("disk full: cannot write `{}`; free some space", file.display())]
    Full {
        /// File or directory that was written.
        file: PathBuf,
    },
    /// The store cannot be accessed now.
    #[error("cannot access `{}`: {}", file.display(), with_causes(source))]
    Unavailable {
        /// File or location that was read or written.
        file: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The store rejected the request; retrying does not help.
    #[error("`{}` rejected the request: {}", file.display(), with_causes(source))]
    Refused {
        /// Location that was accessed.
        file: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The store that a task or a reference names is not configured in this process.
    #[error("result store `{store}` is not configured: {remedy}")]
    NotConfigured {
        /// Name of the store.
        store: String,
        /// How to configure it.
        remedy: String,
    },
    /// The body is larger than the store that the task names accepts.
    #[error(
        "result store `{store}` accepts at most {bytes_max} bytes; use another store, or remove `store` from the task"
    )]
    TooLargeForStore {
        /// Name of the store.
        store: &'static str,
        /// Limit of the store.
        bytes_max: u64,
    },
    /// The configuration of a store is invalid.
    #[error("invalid configuration of {subject}: {problem}")]
    InvalidConfig {
        /// Configured object.
        subject: &'static str,
        /// Cause.
        problem: String,
    },
    /// The source of the body, or its download, failed before the end.
    #[error("the transfer of a result was interrupted")]
    Interrupted(#[source] std::io::Error),
    /// The body exceeds its limit.
    #[error("the result exceeds the limit of {bytes_max} bytes")]
    TooLarge {
        /// Limit.
        bytes_max: u64,
    },
    /// The body is not valid JSON.
    #[error("the result is not valid JSON")]
    NotJson(#[source] crate::JsonScanError),
    /// A selected value is too large to be extracted.
    #[error("the value at `{path}` exceeds {bytes_max} bytes; select a smaller part of it")]
    SelectTooLarge {
        /// Path.
        path: String,
        /// Limit.
        bytes_max: usize,
    },
    /// A `select` path is not a valid `JSONPath`.
    #[error("`{path}` is not a JSONPath: {problem}")]
    InvalidSelect {
        /// Path.
        path: String,
        /// Cause.
        problem: String,
    },
}

/// Returns the message for a missing body, with the reason that its reference suggests.
pub fn missing_reason(reference: &ResultRef) -> String {
    let uri = &reference.uri;
    let reason = match (reference.expires_at, reference.scope) {
        (Some(time), _) => format!("its `ttl` expired at {time}"),
        (None, BodyScope::Step) => "it has `scope: step` and was deleted at the end of its step".to_owned(),
        (None, BodyScope::Execution) => "it is lost, or was deleted after the retention period of its run".to_owned(),
        (None, BodyScope::Workflow) => {
            "it is lost, or was deleted after the retention period of its workflow".to_owned()
        }
        (None, BodyScope::Permanent) => "it is lost, although its scope is `permanent`".to_owned(),
    };
    format!(
        "stored result `{uri}` not found: {reason}; run the task that produced it again, for example with `do: jump, to: previous`"
    )
}

impl Error {
    /// Returns the message; for a missing body it includes the reason that the reference suggests.
    pub fn message_for(&self, reference: &ResultRef) -> String {
        match self {
            Self::NotAvailable { .. } => missing_reason(reference),
            other => other.to_string(),
        }
    }

    /// Stable code that policy rules can match.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAvailable { .. } => "REFERENCE_NOT_AVAILABLE",
            Self::Corrupt { .. } => "REFERENCE_CORRUPT",
            Self::Full { .. } => "STORAGE_FULL",
            Self::TooLarge { .. } => "LIMIT_PAYLOAD",
            Self::NotJson(_) => "RESULT_NOT_JSON",
            Self::SelectTooLarge { .. } => "SELECT_TOO_LARGE",
            Self::Unavailable { .. } | Self::Interrupted(_) => "STORAGE_UNAVAILABLE",
            Self::Refused { .. } => "STORAGE_REFUSED",
            Self::InvalidSelect { .. } => "SELECT_INVALID",
            Self::NotConfigured { .. } => "STORE_NOT_CONFIGURED",
            Self::TooLargeForStore { .. } => "STORE_TOO_SMALL",
            Self::InvalidConfig { .. } => "STORAGE_INVALID",
        }
    }

    /// Whether retrying cannot return the body: it is lost, or not accessible from this process.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotAvailable { .. } | Self::Corrupt { .. } | Self::NotConfigured { .. }
        )
    }

    /// Whether the error is transient.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full { .. } | Self::Unavailable { .. } | Self::Interrupted(_)
        )
    }
}

/// Formats an error with all its causes, because users often see only the message.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
