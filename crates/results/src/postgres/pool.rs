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
const ROOM_MAX: Duration = Duration::from_secs(30);
/// Timeout of a statement; each transfers at most a few chunks.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// Additional time to wait for a response beyond the timeout of the database itself.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Delays before retries; the number of attempts is one more.
const WAITS: [Duration; 5] = [
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
pub trait Connect: Send + Sync {
    /// Opens a connection that its own task drives; commits are durable when they are acknowledged.
    async fn connect(&self, statement_max: Duration) -> Result<Client, ConnectError>;

    /// Host, port and database for display; never the password.
    fn place(&self) -> String;
}

/// Values of a statement with their types.
pub(super) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Connection pool.
pub(super) struct Pool {
    connect: Arc<dyn Connect>,
    idle: Mutex<Vec<Client>>,
    room: Semaphore,
}

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("cannot connect to the database")]
    Unreached(#[source] ConnectError),
    #[error("all connections are in use")]
    Busy,
    #[error("the database did not respond in time")]
    Silent,
    #[error("the database rejected the statement")]
    Refused(#[source] tokio_postgres::Error),
}

impl Pool {
    pub(super) fn new(connect: Arc<dyn Connect>) -> Self {
        Self {
            connect,
            idle: Mutex::default(),
            room: Semaphore::new(CONNECTIONS_MAX),
        }
    }

    /// Host, port and database.
    pub(super) fn place(&self) -> String {
        self.connect.place()
    }

    /// Runs an idempotent statement; retries transient errors.
    pub(super) async fn ask(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        let mut waits = WAITS.iter();
        loop {
            let fault = match self.once(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            match waits.next() {
                Some(wait) if fault.is_passing() => sleep(*wait).await,
                _ => return Err(self.named(fault)),
            }
        }
    }

    async fn once(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let room = timeout(ROOM_MAX, self.room.acquire()).await;
        let Ok(Ok(_place)) = room else {
            return Err(Fault::Busy);
        };
        let client = self.client().await?;
        let asked = client.query_typed(sql, values);
        let answered = timeout(STATEMENT_MAX + ANSWER_SLACK, asked).await;
        let found = answered
            .map_err(|_| Fault::Silent)?
            .map_err(Fault::Refused)?;
        self.idle().push(client);
        Ok(found)
    }

    async fn client(&self) -> Result<Client, Fault> {
        loop {
            let kept = self.idle().pop();
            match kept {
                Some(client) if client.is_closed() => {}
                Some(client) => return Ok(client),
                None => {
                    let made = self.connect.connect(STATEMENT_MAX).await;
                    return made.map_err(Fault::Unreached);
                }
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().expect("the lock is not poisoned")
    }

    fn named(&self, fault: Fault) -> Error {
        let file = self.place().into();
        match fault {
            Fault::Refused(error) if error.code() == Some(&SqlState::DISK_FULL) => {
                Error::Full { file }
            }
            fault => Error::Unavailable {
                file,
                source: std::io::Error::other(fault),
            },
        }
    }
}

impl Fault {
    /// Whether the error is transient.
    fn is_passing(&self) -> bool {
        let Self::Refused(error) = self else {
            return matches!(self, Self::Unreached(_));
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
