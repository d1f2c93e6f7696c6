//! What can go wrong with a body, with the code that tasks and API show.

use std::path::PathBuf;

use model::result_ref::{ResultRef, Scope};

/// Why a body could not be stored, found or trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is not there.
    #[error(
        "the body of `{uri}` is not available: run the task that made it again (`do: jump, to: previous`)"
    )]
    NotAvailable {
        /// The reference.
        uri: String,
    },
    /// The body is not what was stored.
    #[error("the body of `{uri}` is corrupt: restore `{}` from a backup, or run the task that made it again", file.display())]
    Corrupt {
        /// The reference.
        uri: String,
        /// The file.
        file: PathBuf,
    },
    /// No space is left.
    #[error("no space is left for `{}`: free some space", file.display())]
    Full {
        /// What was being written.
        file: PathBuf,
    },
    /// The disk refuses.
    #[error("`{}` cannot be used: {}", file.display(), with_causes(source))]
    Unavailable {
        /// What was being read or written.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store's keeper says no; asking again does not help.
    #[error("`{}` refuses it: {}", file.display(), with_causes(source))]
    Refused {
        /// What was asked.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store that a task or a reference names is not known to this process.
    #[error("the store `{store}` is not configured here: {remedy}")]
    NotConfigured {
        /// The store.
        store: String,
        /// Which variables say where it is.
        remedy: String,
    },
    /// The body is larger than the store that the task names can hold.
    #[error(
        "`{store}` holds bodies of up to {bytes_max} bytes: let the task name another store, or none"
    )]
    TooLargeForStore {
        /// The store.
        store: &'static str,
        /// The bound.
        bytes_max: u64,
    },
    /// What was said about a store cannot be used.
    #[error("{what} cannot be used: {problem}")]
    Invalid {
        /// Which setting.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The body could not be read from where it came.
    #[error("the body broke off while it was stored")]
    Interrupted(#[source] std::io::Error),
    /// The body is larger than it may be.
    #[error("the result is larger than {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// The body is not the JSON it was said to be.
    #[error("the body cannot be kept as a result")]
    NotJson(#[source] crate::NotJson),
    /// A selected value is too large to be lifted out.
    #[error("what `{path}` selects has more than {bytes_max} bytes: select smaller values of it")]
    SelectTooLarge {
        /// The path.
        path: String,
        /// The bound.
        bytes_max: usize,
    },
    /// A `select` path that is no `JSONPath`.
    #[error("`{path}` is not a JSONPath: {problem}")]
    Select {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why a body may be gone, as far as its reference tells.
pub fn why_missing(reference: &ResultRef) -> String {
    let uri = &reference.uri;
    let why = match (reference.expires_at, reference.scope) {
        (Some(time), _) => format!("it expired: its `ttl` let it live until {time}"),
        (None, Scope::Step) => {
            "it expired: with `scope: step` it lived until its step was routed".to_owned()
        }
        (None, Scope::Execution) => {
            "it is lost, or expired when the retention after its run was over".to_owned()
        }
        (None, Scope::Workflow) => {
            "it is lost, or expired when the retention after its workflow was over".to_owned()
        }
        (None, Scope::Permanent) => "it is lost, although it was to be kept for good".to_owned(),
    };
    format!(
        "the body of `{uri}` is not available: {why}; run the task that made it again (`do: jump, to: previous`)"
    )
}

impl Error {
    /// What to say of it, where the reference is known.
    pub fn told_of(&self, reference: &ResultRef) -> String {
        match self {
            Self::NotAvailable { .. } => why_missing(reference),
            other => other.to_string(),
        }
    }

    /// The stable code a policy rule can match.
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
            Self::Select { .. } => "SELECT_INVALID",
            Self::NotConfigured { .. } => "STORE_NOT_CONFIGURED",
            Self::TooLargeForStore { .. } => "STORE_TOO_SMALL",
            Self::Invalid { .. } => "STORAGE_INVALID",
        }
    }

    /// Whether asking again cannot bring the body: it is gone for good, or out of this process's reach.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotAvailable { .. } | Self::Corrupt { .. } | Self::NotConfigured { .. }
        )
    }

    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full { .. } | Self::Unavailable { .. } | Self::Interrupted(_)
        )
    }
}

/// An error with all its causes: a message is often all that reaches whoever has to act on it.
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
