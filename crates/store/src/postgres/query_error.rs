//! Converts errors of connections and statements to errors of the store.

use postgres::{ConnectError, ConnectTarget, QueryError};
use tokio_postgres::error::SqlState;

use crate::error::Error;

/// An error of the database that becomes an error of the store.
pub(super) trait IntoStoreError {
    fn into_store_error(self, target: &ConnectTarget) -> Error;
}

impl IntoStoreError for QueryError {
    fn into_store_error(self, target: &ConnectTarget) -> Error {
        match self {
            Self::ConnectFailed(error) => error.into_store_error(target),
            Self::Permanent(error) => permanent_error(target, error),
            Self::BadRow(source) => Error::Corrupt {
                file: target.location().into(),
                source,
            },
            other => Error::Unavailable(other.into()),
        }
    }
}

impl IntoStoreError for ConnectError {
    fn into_store_error(self, target: &ConnectTarget) -> Error {
        let location = target.location();
        let error = match self {
            Self::TimedOut(_) => {
                let source = self.into();
                return Error::Unreachable { location, source };
            }
            Self::Failed(error) => error,
        };
        match QueryError::from(error) {
            QueryError::Permanent(error) => permanent_error(target, error),
            QueryError::Transient(error) | QueryError::ConnectionLost(error) => {
                let source = error.into();
                Error::Unreachable { location, source }
            }
            other => Error::Unavailable(other.into()),
        }
    }
}

/// Converts an error that a retry cannot fix.
fn permanent_error(target: &ConnectTarget, error: tokio_postgres::Error) -> Error {
    let database = target.location();
    let Some(code) = error.code() else {
        return connection_error(target, error);
    };
    match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => Error::Authentication {
            location: database,
            user: target.user(),
        },
        SqlState::INVALID_CATALOG_NAME => Error::NoDatabase { location: database },
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { file: database.into() },
        SqlState::INSUFFICIENT_PRIVILEGE => {
            let message = error.as_db_error().map(|error| error.message().to_owned());
            Error::Permission {
                location: database,
                missing: message.unwrap_or_default(),
            }
        }
        SqlState::DISK_FULL => Error::Full { file: database.into() },
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => Error::Pooler { location: database },
        SqlState::PROTOCOL_VIOLATION if message_contains(&error, "startup parameter") => {
            Error::Pooler { location: database }
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Error::Corrupt {
            file: database.into(),
            source: error.into(),
        },
        ref other if other.code().starts_with("22") => {
            Error::Malformed("the database cannot store a text or number of this commit")
        }
        _ => Error::Unavailable(error.into()),
    }
}

fn message_contains(error: &tokio_postgres::Error, text: &str) -> bool {
    error.as_db_error().is_some_and(|error| error.message().contains(text))
}

/// Errors without an SQLSTATE come from the network or from the driver.
fn connection_error(target: &ConnectTarget, error: tokio_postgres::Error) -> Error {
    let database = target.location();
    if error.to_string().contains("password missing") {
        return Error::Authentication {
            location: database,
            user: target.user(),
        };
    }
    Error::Unreachable {
        location: database,
        source: error.into(),
    }
}
