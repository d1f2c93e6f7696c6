//! Connections: all configured alike, pooled, and dropped if they may be broken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Connection, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Error;
use crate::postgres::clock::instant;
use crate::postgres::failure::{Fault, TRIES_MAX, WAITS, named};
use crate::postgres::options::Target;
use crate::postgres::tls::tls;

/// Maximum time that a caller waits for a pooled connection.
const ROOM_MAX: Duration = Duration::from_secs(5);

/// Maximum duration of a login, a setting or a notification.
const QUICK_ANSWER_MAX: Duration = Duration::from_secs(5);

/// Time that a caller waits beyond the statement timeout of the database.
const ANSWER_SLACK: Duration = Duration::from_secs(5);

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Whether a statement may be repeated if its result was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    /// Repeating it changes nothing.
    Harmless,
    /// Repeating it would apply it twice.
    Harmful,
}

/// How long generic plans are reused. A plan for a tiny table may be slow after the table has grown; a new plan uses
/// the current size.
const PLANS_AGE_MAX: Duration = Duration::from_secs(10);

/// How the database plans prepared statements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plans {
    /// One generic plan: for statements that find rows by key.
    Once,
    /// A plan for the given values: for lists with filters.
    Fitted,
}

impl Plans {
    /// A generic plan may be made while a table is empty and must not depend on that. Without sorting, the planner can
    /// only use the index that provides the order of a statement.
    fn settings(self) -> &'static str {
        match self {
            Self::Once => {
                "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
                 SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off"
            }
            Self::Fitted => "SET plan_cache_mode = auto",
        }
    }
}

/// An encrypted connection.
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) target: Arc<Target>,
    tls: MakeRustlsConnect,
}

impl Connector {
    pub(super) fn new(target: Target) -> Result<Self, Error> {
        let tls = tls(&target)?;
        Ok(Self {
            target: Arc::new(target),
            tls,
        })
    }

    /// Opens a connection that no task runs yet.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Encrypted>), Error> {
        let connecting = self.target.config.connect(self.tls.clone());
        let connected = self.limit_wait(connecting).await?;
        connected.map_err(|error| match Fault::from(error) {
            Fault::Firm(error) => named(&self.target, error),
            Fault::Passing(error) | Fault::Unknown(error) => Error::Unreachable {
                place: self.target.place(),
                source: error.into(),
            },
            other => Error::Unavailable(other.into()),
        })
    }

    /// Opens a connection that its own task runs. Its commits are durable when they return.
    pub(super) async fn session(&self, statement_max: Duration) -> Result<Session, Error> {
        self.session_with(statement_max, Plans::Fitted).await
    }

    /// The same, with the given kind of plans.
    async fn session_with(&self, statement_max: Duration, plans: Plans) -> Result<Session, Error> {
        let (client, connection) = self.connect().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "database connection closed");
            }
        });
        let settings = format!(
            "SET synchronous_commit = on; SET statement_timeout = {}; SET default_transaction_isolation = 'read committed';
             SET jit = off; {}",
            statement_max.as_millis(),
            plans.settings(),
        );
        self.limit_wait(client.batch_execute(&settings))
            .await?
            .map_err(|error| Fault::from(error).named(&self.target))?;
        Ok(Session {
            client,
            statements: HashMap::new(),
            plans,
            planned_at: instant(),
            is_busy: false,
        })
    }

    /// Limits the time for a response that the server normally returns at once. The driver only limits the TCP
    /// handshake: without this limit, a caller would wait forever for a server that accepts a connection and never
    /// responds.
    pub(super) async fn limit_wait<T>(&self, answer: impl Future<Output = T>) -> Result<T, Error> {
        let answered = timeout(QUICK_ANSWER_MAX, answer).await;
        answered.map_err(|_| Error::Unreachable {
            place: self.target.place(),
            source: format!("no response within {} s", QUICK_ANSWER_MAX.as_secs()).into(),
        })
    }
}

/// One connection and the statements prepared on it.
pub(super) struct Session {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
    plans: Plans,
    planned_at: Instant,
    /// Set while a response is outstanding, so that a connection whose caller was cancelled is not reused.
    is_busy: bool,
}

impl Session {
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Fault> {
        self.is_busy = true;
        let found = self.ask(sql, values).await;
        self.is_busy = false;
        found
    }

    async fn ask(&mut self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        if matches!(self.plans, Plans::Once) && self.planned_at.elapsed() > PLANS_AGE_MAX {
            self.client.batch_execute("DISCARD PLANS").await?;
            self.planned_at = instant();
        }
        let statement = if let Some(known) = self.statements.get(sql) {
            known.clone()
        } else {
            let prepared = self.client.prepare(sql).await?;
            self.statements.insert(sql, prepared.clone());
            prepared
        };
        Ok(self.client.query(&statement, values).await?)
    }
}

/// A pool of connections for one kind of caller.
pub(super) struct Pool {
    pub(super) connector: Connector,
    statement_max: Duration,
    plans: Plans,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
    size: usize,
}

/// A connection in use; dropping it returns it to the pool.
pub(super) struct Lease<'p> {
    pool: &'p Pool,
    session: Option<Session>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && !session.is_busy
            && !session.client.is_closed()
        {
            self.pool.idle().push(session);
        }
    }
}

impl Lease<'_> {
    pub(super) fn session(&mut self) -> &mut Session {
        self.session
            .as_mut()
            .expect("a lease owns its connection until it is dropped")
    }

    /// Marks the connection as possibly broken, so that it is not returned to the pool.
    pub(super) fn spoil(&mut self) {
        self.session().is_busy = true;
    }
}

impl Pool {
    pub(super) fn new(
        connector: Connector,
        size: usize,
        statement_max: Duration,
        plans: Plans,
    ) -> Self {
        Self {
            connector,
            statement_max,
            plans,
            idle: Mutex::default(),
            room: Arc::new(Semaphore::new(size)),
            size,
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle
            .lock()
            .expect("accessing the idle connections does not panic")
    }

    /// Takes a connection; waits while all are in use.
    pub(super) async fn lease(&self) -> Result<Lease<'_>, Fault> {
        let room = timeout(ROOM_MAX, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(place)) = room else {
            let message = format!("all {} database connections are in use", self.size);
            return Err(Fault::Unreached(Error::Unavailable(message.into())));
        };
        loop {
            let kept = self.idle().pop();
            let session = match kept {
                Some(session) if session.client.is_closed() => continue,
                Some(session) => session,
                None => self
                    .connector
                    .session_with(self.statement_max, self.plans)
                    .await
                    .map_err(Fault::Unreached)?,
            };
            return Ok(Lease {
                pool: self,
                session: Some(session),
                _place: place,
            });
        }
    }

    /// Runs one statement, once.
    pub(super) async fn once(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let mut lease = self.lease().await?;
        let answer_max = self.statement_max + ANSWER_SLACK;
        let answered = timeout(answer_max, lease.session().query(sql, values)).await;
        let found = answered.unwrap_or(Err(Fault::Silent(answer_max)));
        if found.as_ref().is_err_and(Fault::spoils) {
            lease.spoil();
        }
        found
    }

    /// Runs one statement, with retries if they can succeed and are safe.
    pub(super) async fn query(
        &self,
        twice: Twice,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut waits = WAITS.iter();
        let begun = instant();
        loop {
            let fault = match self.once(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            let may_help = match &fault {
                Fault::Passing(_) => true,
                Fault::Unreached(error) => error.is_passing(),
                Fault::Unknown(_) => twice == Twice::Harmless,
                Fault::Silent(_) | Fault::Row(_) | Fault::Firm(_) => false,
            };
            match waits.next() {
                Some(wait) if may_help && begun.elapsed() < TRIES_MAX => {
                    tokio::time::sleep(*wait).await;
                }
                _ => return Err(fault.named(&self.connector.target)),
            }
        }
    }
}
