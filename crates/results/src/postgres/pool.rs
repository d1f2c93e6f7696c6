//! A few connections, and what the database's errors mean.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::Error;

/// At most so many connections at once.
const CONNECTIONS_MAX: usize = 6;
/// How long an asker waits for a connection that others use.
const ROOM_MAX: Duration = Duration::from_secs(30);
/// How long one statement may take; each moves a few pieces at most.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// How much longer than the database itself an asker waits for its answer.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Waits before each further try; as many tries as waits, and one.
const WAITS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_millis(1000),
];

/// Why no connection could be made; it never says a password.
pub type ConnectError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections to a database whose schema is up to date.
#[async_trait]
pub trait Connect: Send + Sync {
    /// A connection driven by a task of its own, whose commits are durable when they are answered.
    async fn connect(&self, statement_max: Duration) -> Result<Client, ConnectError>;

    /// Host, port and database, for people; never the password.
    fn place(&self) -> String;
}

/// The values of a statement with their types.
pub(super) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A few connections, kept for the next asker.
pub(super) struct Pool {
    connect: Arc<dyn Connect>,
    idle: Mutex<Vec<Client>>,
    room: Semaphore,
}

/// Why a statement did not answer.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("no connection could be made")]
    Unreached(#[source] ConnectError),
    #[error("all connections are in use")]
    Busy,
    #[error("no answer came in time")]
    Silent,
    #[error("the database refused")]
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

    /// Runs a statement that is harmless the second time, again where that can help.
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
        self.idle
            .lock()
            .expect("keeping a connection does not panic")
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
    /// Whether the same again may succeed at once.
    fn is_passing(&self) -> bool {
        let Self::Refused(error) = self else {
            return matches!(self, Self::Unreached(_));
        };
        match error.code() {
            // Without a code it is the network's.
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
