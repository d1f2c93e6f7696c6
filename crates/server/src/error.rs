//! What can go wrong with an operation of the server.

/// Why an operation did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A body could not be read or kept.
    #[error(transparent)]
    Body(#[from] results::Error),
    /// There is no such execution.
    #[error("there is no execution {0}")]
    NotFound(model::id::ExecutionId),
    /// The playbook of an execution is not in the catalog.
    #[error("playbook {0} is not in the catalog")]
    NoPlaybook(model::id::PlaybookHash),
    /// The catalog has no such version of a playbook.
    #[error("playbook `{path}` has no version {version}")]
    NoVersion {
        /// The playbook.
        path: String,
        /// The version asked for.
        version: u32,
    },
    /// The log of an execution does not begin with its request.
    #[error("the log of execution {0} is broken")]
    BrokenLog(model::id::ExecutionId),
    /// Another server drives the execution.
    #[error("another server ({0}) drives the execution")]
    Elsewhere(store::OwnerId),
    /// What the parts of a manifest come to is too large to be put together.
    #[error(
        "the parts of `{0}` have more than {1} bytes: read them one by one, or let a task lift out what is needed"
    )]
    TooLarge(String, u64),
    /// A credential cannot be had.
    #[error(transparent)]
    Keychain(#[from] crate::keychain::KeychainError),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// What to do about a full disk.
pub const FREE_SPACE: &str =
    "`noetl gc` deletes expired results; `noetl cancel` stops a run that fills the disk";

impl Error {
    /// The stable code shown to people.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Body(error) => error.code(),
            Self::NotFound(_) => "EXECUTION_NOT_FOUND",
            Self::NoPlaybook(_) | Self::NoVersion { .. } => "PLAYBOOK_NOT_FOUND",
            Self::BrokenLog(_) => "LOG_BROKEN",
            Self::Elsewhere(_) => "EXECUTION_ELSEWHERE",
            Self::TooLarge(..) => "BODY_TOO_LARGE",
            Self::Keychain(error) => error.code(),
            Self::Stopping => "SERVER_STOPPING",
        }
    }

    /// The same error for each who waits for a commit, if nothing can be written now. Such a commit is certain not to
    /// have happened.
    pub(crate) fn refused_write(&self) -> Option<Self> {
        match self {
            Self::Store(error) => error.refused_write().map(Self::Store),
            Self::Body(results::Error::Full { file }) => {
                Some(Self::Body(results::Error::Full { file: file.clone() }))
            }
            _ => None,
        }
    }

    /// Why a result broke off while it was read.
    pub(crate) fn broken_off(error: std::io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(error) => Self::Body(results::Error::Interrupted(error)),
        }
    }

    /// Whether the same request may succeed later without anyone changing it.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.is_passing(),
            Self::Body(_) => true,
            Self::Keychain(error) => error.is_passing(),
            _ => false,
        }
    }
}
