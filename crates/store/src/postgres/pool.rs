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
use crate::postgres::options::ConnectTarget;
use crate::postgres::query_error::{QueryError, RETRY_DELAYS, RETRY_TIME_MAX, permanent_error};
use crate::postgres::tls::make_tls_connect;

/// Maximum time that a caller waits for a pooled connection.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum duration of a login, a setting or a notification.
const QUICK_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a caller waits beyond the statement timeout of the database.
const REPLY_SLACK: Duration = Duration::from_secs(5);

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Whether a statement may be repeated if its result was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetrySafety {
    /// Repeating it changes nothing.
    Idempotent,
    /// Repeating it would apply it twice.
    NotIdempotent,
}

/// How long generic plans are reused. A plan for a tiny table may be slow after the table has grown; a new plan uses
/// the current size.
const PLAN_AGE_MAX: Duration = Duration::from_secs(10);

/// How the database plans prepared statements.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlanMode {
    /// One generic plan: for statements that find rows by key.
    Generic,
    /// A plan for the given values: for lists with filters.
    Custom,
}

impl PlanMode {
    /// A generic plan may be made while a table is empty and must not depend on that. Without sorting, the planner can
    /// only use the index that provides the order of a statement.
    fn settings(self) -> &'static str {
        match self {
            Self::Generic => {
                "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
                 SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off"
            }
            Self::Custom => "SET plan_cache_mode = auto",
        }
    }
}

/// An encrypted connection.
type TlsConnection = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) target: Arc<ConnectTarget>,
    tls: MakeRustlsConnect,
}

impl Connector {
    pub(super) fn new(target: ConnectTarget) -> Result<Self, Error> {
        let tls = make_tls_connect(&target)?;
        Ok(Self {
            target: Arc::new(target),
            tls,
        })
    }

    /// Opens a connection that no task runs yet.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, TlsConnection>), Error> {
        let connecting = self.target.config.connect(self.tls.clone());
        let connected = self.limit_wait(connecting).await?;
        connected.map_err(|error| match QueryError::from(error) {
            QueryError::Permanent(error) => permanent_error(&self.target, error),
            QueryError::Transient(error) | QueryError::ConnectionLost(error) => {
                Error::Unreachable {
                    location: self.target.location(),
                    source: error.into(),
                }
            }
            other => Error::Unavailable(other.into()),
        })
    }

    /// Opens a connection that its own task runs. Its commits are durable when they return.
    pub(super) async fn session(&self, statement_max: Duration) -> Result<PgSession, Error> {
        self.session_with(statement_max, PlanMode::Custom).await
    }

    /// The same, with the given kind of plans.
    async fn session_with(
        &self,
        statement_max: Duration,
        plans: PlanMode,
    ) -> Result<PgSession, Error> {
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
            .map_err(|error| QueryError::from(error).into_store_error(&self.target))?;
        Ok(PgSession {
            client,
            statements: HashMap::new(),
            plan_mode: plans,
            planned_at: instant(),
            is_busy: false,
        })
    }

    /// Limits the time for a response that the server normally returns at once. The driver only limits the TCP
    /// handshake: without this limit, a caller would wait forever for a server that accepts a connection and never
    /// responds.
    pub(super) async fn limit_wait<T>(&self, answer: impl Future<Output = T>) -> Result<T, Error> {
        let answered = timeout(QUICK_REPLY_TIMEOUT, answer).await;
        answered.map_err(|_| Error::Unreachable {
            location: self.target.location(),
            source: format!("no response within {} s", QUICK_REPLY_TIMEOUT.as_secs()).into(),
        })
    }
}

/// One connection and the statements prepared on it.
pub(super) struct PgSession {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
    plan_mode: PlanMode,
    planned_at: Instant,
    /// Set while a response is outstanding, so that a connection whose caller was cancelled is not reused.
    is_busy: bool,
}

impl PgSession {
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, QueryError> {
        self.is_busy = true;
        let found = self.query_prepared(sql, values).await;
        self.is_busy = false;
        found
    }

    async fn query_prepared(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, QueryError> {
        if matches!(self.plan_mode, PlanMode::Generic) && self.planned_at.elapsed() > PLAN_AGE_MAX {
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
pub(super) struct SessionPool {
    pub(super) connector: Connector,
    statement_max: Duration,
    plan_mode: PlanMode,
    idle_sessions: Mutex<Vec<PgSession>>,
    permits: Arc<Semaphore>,
    size: usize,
}

/// A connection in use; dropping it returns it to the pool.
pub(super) struct PooledSession<'p> {
    pool: &'p SessionPool,
    session: Option<PgSession>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for PooledSession<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && !session.is_busy
            && !session.client.is_closed()
        {
            self.pool.lock_idle().push(session);
        }
    }
}

impl PooledSession<'_> {
    pub(super) fn session(&mut self) -> &mut PgSession {
        self.session
            .as_mut()
            .expect("a lease owns its connection until it is dropped")
    }

    /// Marks the connection as possibly broken, so that it is not returned to the pool.
    pub(super) fn discard(&mut self) {
        self.session().is_busy = true;
    }
}

impl SessionPool {
    pub(super) fn new(
        connector: Connector,
        size: usize,
        statement_max: Duration,
        plan_mode: PlanMode,
    ) -> Self {
        Self {
            connector,
            statement_max,
            plan_mode,
            idle_sessions: Mutex::default(),
            permits: Arc::new(Semaphore::new(size)),
            size,
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<PgSession>> {
        self.idle_sessions
            .lock()
            .expect("accessing the idle connections does not panic")
    }

    /// Takes a connection; waits while all are in use.
    pub(super) async fn acquire(&self) -> Result<PooledSession<'_>, QueryError> {
        let room = timeout(PERMIT_WAIT_MAX, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(place)) = room else {
            let message = format!("all {} database connections are in use", self.size);
            return Err(QueryError::ConnectFailed(Error::Unavailable(
                message.into(),
            )));
        };
        loop {
            let kept = self.lock_idle().pop();
            let session = match kept {
                Some(session) if session.client.is_closed() => continue,
                Some(session) => session,
                None => self
                    .connector
                    .session_with(self.statement_max, self.plan_mode)
                    .await
                    .map_err(QueryError::ConnectFailed)?,
            };
            return Ok(PooledSession {
                pool: self,
                session: Some(session),
                _permit: place,
            });
        }
    }

    /// Runs one statement, once.
    pub(super) async fn query_once(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, QueryError> {
        let mut lease = self.acquire().await?;
        let answer_max = self.statement_max + REPLY_SLACK;
        let answered = timeout(answer_max, lease.session().query(sql, values)).await;
        let found = answered.unwrap_or(Err(QueryError::TimedOut(answer_max)));
        if found.as_ref().is_err_and(QueryError::breaks_connection) {
            lease.discard();
        }
        found
    }

    /// Runs one statement, with retries if they can succeed and are safe.
    pub(super) async fn query(
        &self,
        twice: RetrySafety,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut waits = RETRY_DELAYS.iter();
        let begun = instant();
        loop {
            let fault = match self.query_once(sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            let may_help = match &fault {
                QueryError::Transient(_) => true,
                QueryError::ConnectFailed(error) => error.is_transient(),
                QueryError::ConnectionLost(_) => twice == RetrySafety::Idempotent,
                QueryError::TimedOut(_) | QueryError::BadRow(_) | QueryError::Permanent(_) => false,
            };
            match waits.next() {
                Some(wait) if may_help && begun.elapsed() < RETRY_TIME_MAX => {
                    tokio::time::sleep(*wait).await;
                }
                _ => return Err(fault.into_store_error(&self.connector.target)),
            }
        }
    }
}
