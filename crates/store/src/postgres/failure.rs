//! What the database's errors mean: to a caller, and to whoever may try again.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::postgres::options::Target;

/// Waits before each further try; as many tries as waits, and one.
pub(super) const WAITS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// No further try begins after so long.
pub(super) const TRIES_MAX: Duration = Duration::from_secs(12);

/// Why a statement did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Nothing was written; the same again may succeed.
    #[error("the database turned it away")]
    Passing(#[source] tokio_postgres::Error),
    /// The connection was lost: what was asked may have happened.
    #[error("the connection was lost")]
    Unknown(#[source] tokio_postgres::Error),
    /// No connection could be made: nothing was asked.
    #[error("no connection could be made")]
    Unreached(#[source] Error),
    /// No answer came in time; what was asked may have happened.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// A row says what it must not.
    #[error("a row cannot be read")]
    Row(#[source] crate::error::Cause),
    /// Anything else: asking again will not help.
    #[error("the database refused")]
    Firm(#[source] tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            if error.to_string().contains("deserializing") {
                return Self::Row(error.into());
            }
            let source = std::error::Error::source(&error);
            let is_lost = source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            return if is_lost || error.is_closed() {
                Self::Unknown(error)
            } else {
                Self::Firm(error)
            };
        };
        match *code {
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::TOO_MANY_CONNECTIONS
            | SqlState::CANNOT_CONNECT_NOW
            | SqlState::QUERY_CANCELED
            | SqlState::OUT_OF_MEMORY
            | SqlState::UNIQUE_VIOLATION => Self::Passing(error),
            SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            | SqlState::CONNECTION_EXCEPTION
            | SqlState::CONNECTION_FAILURE
            | SqlState::CONNECTION_DOES_NOT_EXIST => Self::Unknown(error),
            _ => Self::Firm(error),
        }
    }
}

impl Fault {
    /// Whether the connection must not be used again.
    pub(super) fn spoils(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Silent(_))
    }

    /// What it means to whoever asked.
    pub(super) fn named(self, target: &Target) -> Error {
        match self {
            Self::Unreached(error) => error,
            Self::Firm(error) => named(target, error),
            Self::Row(source) => Error::Corrupt {
                file: target.place().into(),
                source,
            },
            other => Error::Unavailable(other.into()),
        }
    }
}

/// What an error means that asking again does not help against.
pub(super) fn named(target: &Target, error: tokio_postgres::Error) -> Error {
    let place = target.place();
    let Some(code) = error.code() else {
        return unconnected(target, error);
    };
    match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            Error::Authentication {
                place,
                user: target.user(),
            }
        }
        SqlState::INVALID_CATALOG_NAME => Error::NoDatabase { place },
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { file: place.into() },
        SqlState::INSUFFICIENT_PRIVILEGE => {
            let message = error.as_db_error().map(|error| error.message().to_owned());
            Error::Permission {
                place,
                missing: message.unwrap_or_default(),
            }
        }
        SqlState::DISK_FULL => Error::Full { file: place.into() },
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            Error::Pooler { place }
        }
        SqlState::PROTOCOL_VIOLATION if says(&error, "startup parameter") => {
            Error::Pooler { place }
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Error::Corrupt {
            file: place.into(),
            source: error.into(),
        },
        ref other if other.code().starts_with("22") => {
            Error::Malformed("a text or number that the database cannot hold")
        }
        _ => Error::Unavailable(error.into()),
    }
}

fn says(error: &tokio_postgres::Error, text: &str) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| error.message().contains(text))
}

/// Errors without a code come from the network or from the driver.
fn unconnected(target: &Target, error: tokio_postgres::Error) -> Error {
    let place = target.place();
    if error.to_string().contains("password missing") {
        return Error::Authentication {
            place,
            user: target.user(),
        };
    }
    Error::Unreachable {
        place,
        source: error.into(),
    }
}
