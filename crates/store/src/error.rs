//! What can go wrong with a store, in variants a caller can act on.

use std::path::PathBuf;

use crate::commit::Key;

/// Any failure underneath.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached or is too busy; asking again may help. A commit answered so may or may not be there.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
    /// A file is damaged.
    #[error("`{}` is corrupt: restore it from a backup, or move it away to start anew", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        #[source]
        source: Cause,
    },
    /// The store was written by a newer binary.
    #[error("`{}` has schema {found}, this binary knows up to {known}: use a newer noetl", file.display())]
    SchemaTooNew {
        /// The file.
        file: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema this binary knows.
        known: u32,
    },
    /// The database cannot be reached; asking again may help.
    #[error("the database at {place} cannot be reached: check that it runs, and the host and port")]
    Unreachable {
        /// Host, port and database.
        place: String,
        /// What the network said.
        #[source]
        source: Cause,
    },
    /// The database does not let this user in.
    #[error("the database at {place} does not accept user `{user}` with this password")]
    Authentication {
        /// Host, port and database.
        place: String,
        /// The user.
        user: String,
    },
    /// The server has no such database.
    #[error("there is no database at {place}: create it, then start again")]
    NoDatabase {
        /// Host, port and database.
        place: String,
    },
    /// The user may not do what the store needs.
    #[error(
        "the database at {place} does not permit it: {missing}; grant CREATE on the database, or ownership of schema `noetl`"
    )]
    Permission {
        /// Host, port and database.
        place: String,
        /// What the database said.
        missing: String,
    },
    /// Statements of one connection reach different backends.
    #[error(
        "a pooler at {place} gives each transaction another backend: use its session mode, or connect to the database itself"
    )]
    Pooler {
        /// Host, port and database.
        place: String,
    },
    /// The URL of the database cannot be used.
    #[error("the store's URL cannot be used: {0}")]
    Address(String),
    /// The directory is on a file system whose locks cannot be trusted.
    #[error("`{}` is on a network file system ({name}): use a local directory", dir.display())]
    NetworkFileSystem {
        /// The directory.
        dir: PathBuf,
        /// The file system.
        name: &'static str,
    },
    /// No space is left.
    #[error("no space is left for `{}`: free some space", file.display())]
    Full {
        /// The file.
        file: PathBuf,
    },
    /// No space is left, and control requests have used the space that was reserved for them.
    #[error(
        "no space is left for `{}`, and the space reserved for cancel and pause is used up: free some space, then send the request again",
        file.display()
    )]
    ReserveExhausted {
        /// The file.
        file: PathBuf,
    },
    /// Writing is not allowed.
    #[error(
        "`{}` cannot be written: check its permissions and how its disk is mounted, or name the Postgres server that takes writes",
        file.display()
    )]
    ReadOnly {
        /// The file.
        file: PathBuf,
    },
    /// The commit would make something happen twice that may happen once; nothing of it was written.
    #[error("{0} is already in the log")]
    Invariant(Key),
    /// The commit contradicts itself; nothing of it was written.
    #[error("malformed commit: {0}")]
    Malformed(&'static str),
}

impl Error {
    /// The stable code shown to people.
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

    /// Whether the same request may succeed later without anyone changing it.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_)
                | Self::Unreachable { .. }
                | Self::Full { .. }
                | Self::ReserveExhausted { .. }
                | Self::ReadOnly { .. }
        )
    }

    /// The same error for each who waits for a commit, if the store takes no writes now. Such a commit is certain not
    /// to have happened.
    pub fn refused_write(&self) -> Option<Self> {
        match self {
            Self::Full { file } => Some(Self::Full { file: file.clone() }),
            Self::ReserveExhausted { file } => Some(Self::ReserveExhausted { file: file.clone() }),
            Self::ReadOnly { file } => Some(Self::ReadOnly { file: file.clone() }),
            _ => None,
        }
    }
}

/// An error and what lies under it, as one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(under) = source {
        text.push_str(": ");
        text.push_str(&under.to_string());
        source = under.source();
    }
    text
}
