//! What can go wrong with credentials. No message shows a value.

use std::path::PathBuf;

use model::outcome::{ErrorKind, TaskError};

/// Why a credential was not kept, found or handed out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No master key was given, and this store makes none.
    #[error("there is no master key to seal credentials with")]
    MasterKeyMissing,
    /// What was given as the master key is none.
    #[error("{0} is not a master key: 32 bytes in base64 or hex")]
    MasterKeyInvalid(String),
    /// The file of the master key cannot be used.
    #[error("the master key in `{}` cannot be used", file.display())]
    MasterKeyFile {
        /// The file.
        file: PathBuf,
        /// What the disk said.
        #[source]
        source: std::io::Error,
    },
    /// Sealed under a key that is not at hand.
    #[error("{what} is sealed under master key {key_id}, which is not at hand")]
    MasterKeyWrong {
        /// What is sealed.
        what: String,
        /// The key.
        key_id: String,
    },
    /// What is kept is not what was sealed.
    #[error("{0} does not open: what is kept is not what was sealed")]
    Tampered(String),
    /// There is no such credential.
    #[error("there is no credential `{0}`")]
    NotFound(String),
    /// An entry of the keychain cannot be resolved.
    #[error("keychain entry `{name}` cannot be resolved: {why}")]
    Unresolved {
        /// The entry.
        name: String,
        /// Why, without any value.
        why: String,
    },
    /// An endpoint or a secret manager cannot answer now.
    #[error("keychain entry `{name}` cannot be resolved now: {why}")]
    Unavailable {
        /// The entry.
        name: String,
        /// Why, without any value.
        why: String,
    },
    /// Others changed the same thing at the same time.
    #[error("others changed {0} at the same time; set it again")]
    Conflict(String),
    /// A worker asks for what its command's step does not declare. What it asks for may be a secret, and is not told.
    #[error("step `{step}` asks for a credential that it does not declare")]
    NotDeclared {
        /// The step.
        step: String,
    },
    /// What was given is no credential.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// The stable code shown to people.
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

    /// What a person does about it.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::MasterKeyMissing => {
                "make one with `openssl rand -base64 32` and give it to every server as NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE"
            }
            Self::MasterKeyWrong { .. } => {
                "give the key that sealed it as NOETL_MASTER_KEY_OLD, or set the credential again"
            }
            Self::Tampered(_) => "set the credential again, and find out who changed the store",
            Self::NotFound(name) => {
                return Some(format!(
                    "set it: `noetl secret set {name} --type TYPE --file FILE.json`"
                ));
            }
            Self::NotDeclared { .. } => {
                "name it under `auth` of the step's task, or list it in the playbook's `keychain`"
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Whether the same request may succeed later without anyone changing it.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.is_passing(),
            Self::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// How a task fails for it.
    pub(crate) fn failure(&self) -> TaskError {
        let retryable = self.is_passing();
        let kind = if retryable {
            ErrorKind::Connection
        } else {
            ErrorKind::Auth
        };
        TaskError {
            retryable,
            ..TaskError::new(kind, self.code(), self.told())
        }
    }

    /// Why, with what to do about it.
    pub(crate) fn told(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }
}
