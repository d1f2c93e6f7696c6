//! Errors of the keychain. No message contains a value.

use std::path::PathBuf;

use model::outcome::{ErrorKind, TaskError};

/// Why a credential could not be stored, found or returned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No master key is configured, and this store does not create one.
    #[error("no master key configured")]
    MasterKeyMissing,
    /// The configured master key is invalid.
    #[error("invalid master key in {0}: expected 32 bytes in base64 or hex")]
    MasterKeyInvalid(String),
    /// The file of the master key cannot be read or written.
    #[error("cannot use the master key file `{}`", file.display())]
    MasterKeyFile {
        /// Path of the file.
        file: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The value is encrypted with a master key that this server does not have.
    #[error("{subject} is encrypted with master key {key_id}, which this server does not have")]
    MasterKeyWrong {
        /// The credential or entry.
        subject: String,
        /// ID of the master key.
        key_id: String,
    },
    /// The stored value is not what was encrypted.
    #[error("cannot decrypt {0}: the stored value has been modified")]
    Tampered(String),
    /// The credential does not exist.
    #[error("credential `{0}` not found")]
    NotFound(String),
    /// An entry of the keychain cannot be resolved.
    #[error("cannot resolve keychain entry `{name}`: {reason}")]
    Unresolved {
        /// Name of the entry.
        name: String,
        /// Cause, without any value.
        reason: String,
    },
    /// An endpoint or a secret manager is temporarily unavailable.
    #[error("cannot resolve keychain entry `{name}` now: {reason}")]
    Unavailable {
        /// Name of the entry.
        name: String,
        /// Cause, without any value.
        reason: String,
    },
    /// The value was changed concurrently.
    #[error("{0} was changed concurrently; set it again")]
    Conflict(String),
    /// A worker requests a name that its command's step does not declare. The name may be a secret, so the error omits
    /// it.
    #[error("step `{step}` requests a credential that it does not declare")]
    NotDeclared {
        /// The step.
        step: String,
    },
    /// The request is not a valid credential.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Stable error code that users see.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MasterKeyMissing => "MASTER_KEY_MISSING",
            Self::MasterKeyInvalid(_) | Self::MasterKeyFile { .. } => "MASTER_KEY_INVALID",
            Self::MasterKeyWrong { .. } => "MASTER_KEY_WRONG",
            Self::Tampered(_) => "CREDENTIAL_TAMPERED",
            Self::NotFound(_) => "CREDENTIAL_NOT_FOUND",
            Self::Unresolved { .. } => "KEYCHAIN_UNRESOLVED",
            Self::Unavailable { .. } => "KEYCHAIN_UNAVAILABLE",
            Self::Conflict(_) => "CREDENTIAL_CONFLICT",
            Self::NotDeclared { .. } => "CREDENTIAL_NOT_DECLARED",
            Self::Invalid(_) => "CREDENTIAL_INVALID",
            Self::Store(error) => error.code(),
        }
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::MasterKeyMissing => {
                "create one with `openssl rand -base64 32` and set NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE on every server"
            }
            Self::MasterKeyWrong { .. } => {
                "set NOETL_MASTER_KEY_OLD to the key that encrypted it, or set the credential again"
            }
            Self::Tampered(_) => "set the credential again, and find out what modified the store",
            Self::NotFound(name) => {
                return Some(format!(
                    "create it with `noetl secret set {name} --type TYPE --file FILE.json`"
                ));
            }
            Self::NotDeclared { .. } => "add it to `auth` of the step's task, or list it in the playbook's `keychain`",
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Whether the error is transient: the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// The task error that the failure causes.
    pub(crate) fn to_task_error(&self) -> TaskError {
        let retryable = self.is_transient();
        let kind = if retryable {
            ErrorKind::Connection
        } else {
            ErrorKind::Auth
        };
        TaskError {
            retryable,
            ..TaskError::new(kind, self.code(), self.message_with_remedy())
        }
    }

    /// The message with its remedy.
    pub(crate) fn message_with_remedy(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }
}
