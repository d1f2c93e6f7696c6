//! Classifies errors of statements, for callers and for retries.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::connector::ConnectError;

/// Delays before each retry; there is one attempt more than delays.
pub const RETRY_WAITS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// No retry starts after this time.
pub const RETRIES_DURATION_MAX: Duration = Duration::from_secs(12);

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Nothing was written; a retry may succeed.
    #[error("the database rejected the statement for now")]
    Transient(#[source] tokio_postgres::Error),
    /// The connection was lost; the statement may have taken effect.
    #[error("the connection was lost")]
    ConnectionLost(#[source] tokio_postgres::Error),
    /// No connection could be made; nothing was sent.
    #[error("cannot connect to the database")]
    ConnectFailed(#[source] ConnectError),
    /// All connections of the pool are in use; nothing was sent.
    #[error("all {0} database connections are in use")]
    PoolExhausted(usize),
    /// No response arrived in time; the statement may have taken effect.
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// A row has invalid content.
    #[error("cannot read a row")]
    BadRow(#[source] Box<dyn std::error::Error + Send + Sync>),
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
    pub fn breaks_connection(&self) -> bool {
        matches!(self, Self::ConnectionLost(_) | Self::TimedOut(_))
    }

    /// Whether nothing was sent or written, and a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transient(_) | Self::PoolExhausted(_) => true,
            Self::ConnectFailed(error) => error.is_transient(),
            Self::ConnectionLost(_) | Self::TimedOut(_) | Self::BadRow(_) | Self::Permanent(_) => false,
        }
    }
}
