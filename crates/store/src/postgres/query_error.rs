//! Classifies errors of the database: for callers, and for retries.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::postgres::options::ConnectTarget;

/// Delays before each retry; there is one attempt more than delays.
pub(super) const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// No retry starts after this time.
pub(super) const RETRY_TIME_MAX: Duration = Duration::from_secs(12);

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    /// Nothing was written; a retry may succeed.
    #[error("the database rejected the statement for now")]
    Transient(#[source] tokio_postgres::Error),
    /// The connection was lost; the statement may have taken effect.
    #[error("the connection was lost")]
    ConnectionLost(#[source] tokio_postgres::Error),
    /// No connection could be made; nothing was sent.
    #[error("cannot connect")]
    ConnectFailed(#[source] Error),
    /// No response arrived in time; the statement may have taken effect.
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// A row has invalid content.
    #[error("cannot read a row")]
    BadRow(#[source] crate::error::BoxError),
    /// Any other error; a retry will not succeed.
    #[error("the database rejected the statement")]
    Permanent(#[source] tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for QueryError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            if error.to_string().contains("deserializing") {
                return Self::BadRow(error.into());
            }
            let source = std::error::Error::source(&error);
            let is_lost = source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            return if is_lost || error.is_closed() {
                Self::ConnectionLost(error)
            } else {
                Self::Permanent(error)
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
            | SqlState::UNIQUE_VIOLATION => Self::Transient(error),
            SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            | SqlState::CONNECTION_EXCEPTION
            | SqlState::CONNECTION_FAILURE
            | SqlState::CONNECTION_DOES_NOT_EXIST => Self::ConnectionLost(error),
            _ => Self::Permanent(error),
        }
    }
}

impl QueryError {
    /// Whether the connection must not be used again.
    pub(super) fn breaks_connection(&self) -> bool {
        matches!(self, Self::ConnectionLost(_) | Self::TimedOut(_))
    }

    /// Converts it to the store's error.
    pub(super) fn into_store_error(self, target: &ConnectTarget) -> Error {
        match self {
            Self::ConnectFailed(error) => error,
            Self::Permanent(error) => permanent_error(target, error),
            Self::BadRow(source) => Error::Corrupt {
                file: target.location().into(),
                source,
            },
            other => Error::Unavailable(other.into()),
        }
    }
}

/// Converts an error that a retry cannot fix.
pub(super) fn permanent_error(target: &ConnectTarget, error: tokio_postgres::Error) -> Error {
    let place = target.location();
    let Some(code) = error.code() else {
        return connection_error(target, error);
    };
    match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            Error::Authentication {
                location: place,
                user: target.user(),
            }
        }
        SqlState::INVALID_CATALOG_NAME => Error::NoDatabase { location: place },
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { file: place.into() },
        SqlState::INSUFFICIENT_PRIVILEGE => {
            let message = error.as_db_error().map(|error| error.message().to_owned());
            Error::Permission {
                location: place,
                missing: message.unwrap_or_default(),
            }
        }
        SqlState::DISK_FULL => Error::Full { file: place.into() },
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            Error::Pooler { location: place }
        }
        SqlState::PROTOCOL_VIOLATION if message_contains(&error, "startup parameter") => {
            Error::Pooler { location: place }
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

fn message_contains(error: &tokio_postgres::Error, text: &str) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| error.message().contains(text))
}

/// Errors without an SQLSTATE come from the network or from the driver.
fn connection_error(target: &ConnectTarget, error: tokio_postgres::Error) -> Error {
    let place = target.location();
    if error.to_string().contains("password missing") {
        return Error::Authentication {
            location: place,
            user: target.user(),
        };
    }
    Error::Unreachable {
        location: place,
        source: error.into(),
    }
}
