//! Errors of the store, in variants that a caller can act on.

use std::path::PathBuf;

use model::event::UniqueKey;

/// The cause of an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached or is too busy; a retry may succeed. The outcome of a commit with this error is
    /// unknown.
    #[error("the store is unavailable")]
    Unavailable(#[source] BoxError),
    /// A file is damaged.
    #[error(
        "`{}` is corrupt (restore it from a backup, or move it away to start with an empty store)",
        file.display()
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// The damage.
        #[source]
        source: BoxError,
    },
    /// The store was written by a newer binary.
    #[error(
        "`{}` uses schema version {version}, but this noetl supports up to {supported}; upgrade noetl",
        file.display()
    )]
    SchemaTooNew {
        /// The file.
        file: PathBuf,
        /// Its schema version.
        version: u32,
        /// The newest schema version that this binary supports.
        supported: u32,
    },
    /// The database cannot be reached; a retry may succeed.
    #[error("cannot connect to Postgres at {location}")]
    Unreachable {
        /// Host, port and database.
        location: String,
        /// The network error.
        #[source]
        source: BoxError,
    },
    /// The database rejects the user or the password.
    #[error("cannot log in to Postgres at {location} as user `{user}`: wrong user name or password")]
    Authentication {
        /// Host, port and database.
        location: String,
        /// The user.
        user: String,
    },
    /// The server has no such database.
    #[error("database {location} does not exist; create it, then start again")]
    NoDatabase {
        /// Host, port and database.
        location: String,
    },
    /// The user lacks a permission that the store needs.
    #[error(
        "permission denied at {location}: {missing}; \
         grant CREATE on the database, or ownership of schema `noetl`"
    )]
    Permission {
        /// Host, port and database.
        location: String,
        /// The message of the database.
        missing: String,
    },
    /// A pooler sends the statements of one connection to different backends.
    #[error("the pooler at {location} uses transaction pooling; use session pooling, or connect directly")]
    Pooler {
        /// Host, port and database.
        location: String,
    },
    /// The URL of the database is invalid.
    #[error("invalid store URL: {0}")]
    Address(postgres::TargetError),
    /// The directory is on a file system whose locks are not reliable.
    #[error("`{}` is on a network file system ({name}); use a local directory", dir.display())]
    NetworkFileSystem {
        /// The directory.
        dir: PathBuf,
        /// The file system.
        name: &'static str,
    },
    /// The disk is full.
    #[error("disk full: cannot write `{}`; free some space", file.display())]
    Full {
        /// The file.
        file: PathBuf,
    },
    /// The disk is full, and control requests have used up the space reserved for them.
    #[error(
        "disk full: cannot write `{}`, and the space reserved for cancel and pause is used up; \
         free some space, then send the request again",
        file.display()
    )]
    ReserveExhausted {
        /// The file.
        file: PathBuf,
    },
    /// The store is read-only.
    #[error(
        "cannot write `{}`: read-only; check its permissions and mount options, \
         or use the Postgres server that accepts writes",
        file.display()
    )]
    ReadOnly {
        /// The file.
        file: PathBuf,
    },
    /// The commit violates a unique key; nothing of it was written.
    #[error("the log already contains {0}")]
    Invariant(UniqueKey),
    /// The commit is inconsistent; nothing of it was written.
    #[error("malformed commit: {0}")]
    Malformed(&'static str),
}

impl From<postgres::TargetError> for Error {
    fn from(error: postgres::TargetError) -> Self {
        Self::Address(error)
    }
}

impl Error {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
            Self::Corrupt { .. } => "STORE_CORRUPT",
            Self::SchemaTooNew { .. } => "STORE_SCHEMA_TOO_NEW",
            Self::Unreachable { .. } => "STORE_UNREACHABLE",
            Self::Authentication { .. } => "STORE_AUTHENTICATION",
            Self::NoDatabase { .. } => "STORE_NO_DATABASE",
            Self::Permission { .. } => "STORE_PERMISSION",
            Self::Pooler { .. } => "STORE_POOLER",
            Self::Address(_) => "STORE_ADDRESS",
            Self::NetworkFileSystem { .. } => "STORE_NETWORK_FILE_SYSTEM",
            Self::Full { .. } | Self::ReserveExhausted { .. } => "STORE_FULL",
            Self::ReadOnly { .. } => "STORE_READ_ONLY",
            Self::Invariant(_) => "STORE_INVARIANT",
            Self::Malformed(_) => "STORE_MALFORMED_COMMIT",
        }
    }

    /// Whether the same request may succeed later without changes.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_)
                | Self::Unreachable { .. }
                | Self::Full { .. }
                | Self::ReserveExhausted { .. }
                | Self::ReadOnly { .. }
        )
    }

    /// A copy of the error for each waiting commit, if the store currently accepts no writes. Such a commit was
    /// certainly not written.
    pub fn to_write_refusal(&self) -> Option<Self> {
        match self {
            Self::Full { file } => Some(Self::Full { file: file.clone() }),
            Self::ReserveExhausted { file } => Some(Self::ReserveExhausted { file: file.clone() }),
            Self::ReadOnly { file } => Some(Self::ReadOnly { file: file.clone() }),
            _ => None,
        }
    }
}

/// The error and its causes, as one line.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(under) = source {
        text.push_str(": ");
        text.push_str(&under.to_string());
        source = under.source();
    }
    text
}
