//! Classifies errors of the database: for callers, and for retries.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::postgres::options::Target;

/// Delays before each retry; there is one attempt more than delays.
pub(super) const WAITS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// No retry starts after this time.
pub(super) const TRIES_MAX: Duration = Duration::from_secs(12);

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Nothing was written; a retry may succeed.
    #[error("the database rejected the statement for now")]
    Passing(#[source] tokio_postgres::Error),
    /// The connection was lost; the statement may have taken effect.
    #[error("the connection was lost")]
    Unknown(#[source] tokio_postgres::Error),
    /// No connection could be made; nothing was sent.
    #[error("cannot connect")]
    Unreached(#[source] Error),
    /// No response arrived in time; the statement may have taken effect.
    #[error("no response within {} s", .0.as_secs())]
    Silent(Duration),
    /// A row has invalid content.
    #[error("cannot read a row")]
    Row(#[source] crate::error::Cause),
    /// Any other error; a retry will not succeed.
    #[error("the database rejected the statement")]
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

    /// Converts it to the store's error.
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

/// Converts an error that a retry cannot fix.
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
            Error::Malformed("the database cannot store a text or number of this commit")
        }
        _ => Error::Unavailable(error.into()),
    }
}

fn says(error: &tokio_postgres::Error, text: &str) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| error.message().contains(text))
}

/// Errors without an SQLSTATE come from the network or from the driver.
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
