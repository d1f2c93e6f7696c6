//! Errors of server operations.

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A body cannot be read or stored.
    #[error(transparent)]
    Body(#[from] results::Error),
    /// The execution does not exist.
    #[error("run {0} not found")]
    NotFound(model::id::ExecutionId),
    /// The playbook of an execution is not in the catalog.
    #[error("playbook {0} is not in the catalog")]
    NoPlaybook(model::id::PlaybookHash),
    /// The catalog does not have this version of the playbook.
    #[error("playbook `{path}` has no version {version}")]
    NoVersion {
        /// Catalog path of the playbook.
        path: String,
        /// Requested version.
        version: u32,
    },
    /// The log of an execution does not start with the event that requested it.
    #[error("the event log of run {0} is corrupt")]
    BrokenLog(model::id::ExecutionId),
    /// Another server owns the execution.
    #[error("the run is owned by server {0}")]
    OwnedBy(store::OwnerId),
    /// The parts of a manifest are too large to be combined in memory.
    #[error(
        "the parts of `{0}` exceed {1} bytes together: read them one by one, or extract the fields you need in a task"
    )]
    TooLarge(String, u64),
    /// The state at an event needs a replay of too many events.
    #[error(
        "cannot compute the state at event {0}: more than {max} events would have to be replayed",
        max = crate::state_replay::REPLAYED_EVENTS_MAX
    )]
    ReplayTooLong(model::id::Seq),
    /// A credential cannot be resolved.
    #[error(transparent)]
    Keychain(#[from] crate::keychain::KeychainError),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// Remedy for a full disk.
pub const FREE_SPACE_REMEDY: &str =
    "`noetl gc` deletes expired results; `noetl cancel` stops a run that fills the disk";

impl Error {
    /// Stable error code that users see.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Body(error) => error.code(),
            Self::NotFound(_) => "EXECUTION_NOT_FOUND",
            Self::NoPlaybook(_) | Self::NoVersion { .. } => "PLAYBOOK_NOT_FOUND",
            Self::BrokenLog(_) => "LOG_BROKEN",
            Self::OwnedBy(_) => "EXECUTION_ELSEWHERE",
            Self::TooLarge(..) => "BODY_TOO_LARGE",
            Self::ReplayTooLong(_) => "REPLAY_TOO_LONG",
            Self::Keychain(error) => error.code(),
            Self::Stopping => "SERVER_STOPPING",
        }
    }

    /// Copies an error that means "nothing was written", so that every caller that waits for the commit gets it.
    /// `None` for errors after which the commit may have happened.
    pub(crate) fn as_write_refusal(&self) -> Option<Self> {
        match self {
            Self::Store(error) => error.to_write_refusal().map(Self::Store),
            Self::Body(results::Error::Full { file }) => Some(Self::Body(results::Error::Full { file: file.clone() })),
            _ => None,
        }
    }

    /// Converts the I/O error of an interrupted result stream.
    pub(crate) fn from_read_error(error: std::io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(error) => Self::Body(results::Error::Interrupted(error)),
        }
    }

    /// Whether the error is transient: the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Body(_) => true,
            Self::Keychain(error) => error.is_transient(),
            _ => false,
        }
    }
}
