//! A small connection pool, and the meaning of database errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::Error;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 6;
/// How long a caller waits for a free connection.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(30);
/// Timeout of a statement; each transfers at most a few chunks.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Additional time to wait for a response beyond the timeout of the database itself.
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);
/// Delays before retries; the number of attempts is one more.
const RETRY_WAITS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Why a connection failed; never contains a password.
pub type ConnectError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to a database whose schema is up to date.
#[async_trait]
pub trait PostgresConnector: Send + Sync {
    /// Opens a connection that its own task drives; commits are durable when they are acknowledged.
    async fn connect(&self, statement_max: Duration) -> Result<Client, ConnectError>;

    /// Host, port and database for display; never the password.
    fn location(&self) -> String;
}

/// Values of a statement with their types.
pub(super) type SqlValues<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Connection pool.
pub(super) struct StatementPool {
    connector: Arc<dyn PostgresConnector>,
    idle: Mutex<Vec<Client>>,
    permits: Semaphore,
}

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
enum StatementError {
    #[error("cannot connect to the database")]
    ConnectFailed(#[source] ConnectError),
    #[error("all connections are in use")]
    PoolExhausted,
    #[error("the database did not respond in time")]
    TimedOut,
    #[error("the database rejected the statement")]
    Rejected(#[source] tokio_postgres::Error),
}

impl StatementPool {
    pub(super) fn new(connector: Arc<dyn PostgresConnector>) -> Self {
        Self {
            connector,
            idle: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS_MAX),
        }
    }

    /// Host, port and database.
    pub(super) fn location(&self) -> String {
        self.connector.location()
    }

    /// Runs an idempotent statement; retries transient errors.
    pub(super) async fn query(&self, sql: &str, values: SqlValues<'_>) -> Result<Vec<Row>, Error> {
        let mut waits = RETRY_WAITS.iter();
        loop {
            let fault = match self.query_once(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            match waits.next() {
                Some(wait) if fault.is_passing() => sleep(*wait).await,
                _ => return Err(self.store_error(fault)),
            }
        }
    }

    async fn query_once(
        &self,
        sql: &str,
        values: SqlValues<'_>,
    ) -> Result<Vec<Row>, StatementError> {
        let room = timeout(PERMIT_WAIT_MAX, self.permits.acquire()).await;
        let Ok(Ok(_place)) = room else {
            return Err(StatementError::PoolExhausted);
        };
        let client = self.acquire_client().await?;
        let asked = client.query_typed(sql, values);
        let answered = timeout(STATEMENT_TIMEOUT + RESPONSE_MARGIN, asked).await;
        let found = answered
            .map_err(|_| StatementError::TimedOut)?
            .map_err(StatementError::Rejected)?;
        self.lock_idle().push(client);
        Ok(found)
    }

    async fn acquire_client(&self) -> Result<Client, StatementError> {
        loop {
            let kept = self.lock_idle().pop();
            match kept {
                Some(client) if client.is_closed() => {}
                Some(client) => return Ok(client),
                None => {
                    let made = self.connector.connect(STATEMENT_TIMEOUT).await;
                    return made.map_err(StatementError::ConnectFailed);
                }
            }
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().expect("the lock is not poisoned")
    }

    fn store_error(&self, fault: StatementError) -> Error {
        let file = self.location().into();
        match fault {
            StatementError::Rejected(error) if error.code() == Some(&SqlState::DISK_FULL) => {
                Error::Full { file }
            }
            fault => Error::Unavailable {
                file,
                source: std::io::Error::other(fault),
            },
        }
    }
}

impl StatementError {
    /// Whether the error is transient.
    fn is_passing(&self) -> bool {
        let Self::Rejected(error) = self else {
            return matches!(self, Self::ConnectFailed(_));
        };
        match error.code() {
            // An error without a code comes from the network.
            None => true,
            Some(code) => [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::TOO_MANY_CONNECTIONS,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::UNIQUE_VIOLATION,
            ]
            .contains(code),
        }
    }
}
