//! A pool of connections that are configured alike; a connection that may be broken is dropped.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{
    Manager, Metrics, Object, Pool, PoolError, QueueMode, RecycleError, RecycleResult, TimeoutType, Timeouts,
};
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;

use crate::connector::{ConnectError, Connector, RESPONSE_MAX};
use crate::query_error::{QueryError, RETRIES_DURATION_MAX, RETRY_WAITS};
use crate::session::{PgSession, PlanMode, SqlQuery, monotonic_now};

/// Time that a caller waits for a response beyond the statement timeout of the database.
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);

/// Whether a statement may be repeated if its result was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrySafety {
    /// Repeating it changes nothing.
    Idempotent,
    /// Repeating it would apply it twice.
    NotIdempotent,
}

/// How a pool opens and uses its connections.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Maximum number of connections.
    pub size: usize,
    /// Maximum time that a caller waits for a connection that others use.
    pub permit_wait_max: Duration,
    /// Settings that a new connection applies.
    pub settings: String,
    /// How statements are planned.
    pub plan_mode: PlanMode,
    /// The statement timeout of the database.
    pub statement_max: Duration,
    /// A connection that was idle for longer is checked before it is used; `None` checks none.
    pub check_after: Option<Duration>,
}

/// A pool of connections.
pub struct ConnectionPool {
    pool: Pool<SessionOpener>,
    options: PoolOptions,
}

/// Opens and checks the connections of a pool.
struct SessionOpener {
    connector: Connector,
    settings: String,
    plan_mode: PlanMode,
    check_after: Option<Duration>,
}

impl Manager for SessionOpener {
    type Type = PgSession;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<PgSession, tokio_postgres::Error> {
        // The future of a TLS handshake is large; in a box, it does not enlarge the caller's future.
        let client = Box::pin(self.connector.establish(&self.settings)).await?;
        Ok(PgSession::new(client, self.plan_mode))
    }

    async fn recycle(&self, session: &mut PgSession, _metrics: &Metrics) -> RecycleResult<tokio_postgres::Error> {
        if session.client.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        if let Some(check_after) = self.check_after
            && session.idle_since.elapsed() >= check_after
        {
            session.client.check_connection().await?;
        }
        Ok(())
    }
}

impl ConnectionPool {
    /// Creates a pool; opens no connection yet.
    pub fn new(connector: Connector, options: PoolOptions) -> Self {
        let manager = SessionOpener {
            connector,
            settings: options.settings.clone(),
            plan_mode: options.plan_mode,
            check_after: options.check_after,
        };
        let pool = Pool::builder(manager)
            .max_size(options.size)
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a pool with a runtime can have timeouts");
        Self { pool, options }
    }

    /// Opens the connections of this pool.
    pub fn connector(&self) -> &Connector {
        &self.pool.manager().connector
    }

    /// Takes a connection, or opens one within `connect_max`; waits while all are in use.
    pub async fn acquire(&self, connect_max: Duration) -> Result<PooledSession, QueryError> {
        let timeouts = Timeouts {
            wait: Some(self.options.permit_wait_max),
            create: Some(connect_max),
            recycle: Some(RESPONSE_MAX),
        };
        let acquired = self.pool.timeout_get(&timeouts).await;
        let object = acquired.map_err(|error| match error {
            PoolError::Backend(error) => QueryError::ConnectFailed(ConnectError::Failed(error)),
            PoolError::Timeout(TimeoutType::Create) => QueryError::ConnectFailed(ConnectError::TimedOut(connect_max)),
            _ => QueryError::PoolExhausted(self.options.size),
        })?;
        Ok(PooledSession(Some(object)))
    }

    /// Runs one statement, once.
    pub async fn query_once(&self, query: SqlQuery<'_>) -> Result<Vec<Row>, QueryError> {
        let mut session = self.acquire(RESPONSE_MAX).await?;
        let response_max = self.options.statement_max + RESPONSE_MARGIN;
        let response = timeout(response_max, session.run(query)).await;
        let rows = response.unwrap_or(Err(QueryError::TimedOut(response_max)));
        if rows.as_ref().is_err_and(QueryError::breaks_connection) {
            session.discard();
        }
        rows
    }

    /// Runs one statement, with retries if they can succeed and are safe.
    pub async fn query(&self, safety: RetrySafety, query: SqlQuery<'_>) -> Result<Vec<Row>, QueryError> {
        let mut waits = RETRY_WAITS.iter();
        let started = monotonic_now();
        loop {
            let error = match self.query_once(query).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            let is_lost = matches!(error, QueryError::ConnectionLost(_));
            let may_retry = error.is_transient() || is_lost && safety == RetrySafety::Idempotent;
            match waits.next() {
                Some(wait) if may_retry && started.elapsed() < RETRIES_DURATION_MAX => {
                    sleep(*wait).await;
                }
                _ => return Err(error),
            }
        }
    }

    /// Closes connections that were idle for longer than `idle_max`; returns how many idle ones are left.
    pub fn close_idle(&self, idle_max: Duration) -> usize {
        let is_recent = |session: &PgSession, _| !session.client.is_closed() && session.idle_since.elapsed() < idle_max;
        self.pool.retain(is_recent).retained
    }
}

/// A connection in use; dropping it returns it to its pool, unless a response is outstanding.
pub struct PooledSession(Option<Object<SessionOpener>>);

impl PooledSession {
    /// Marks the connection as possibly broken, so that it is not returned to the pool.
    pub fn discard(&mut self) {
        self.is_busy = true;
    }

    /// Undoes [`discard`](Self::discard): the next caller may use the connection.
    pub fn allow_reuse(&mut self) {
        self.is_busy = false;
    }

    /// Whether the connection is used for the first time.
    pub fn is_new(&self) -> bool {
        Object::metrics(self.object()).recycle_count == 0
    }

    fn object(&self) -> &Object<SessionOpener> {
        self.0.as_ref().expect("the connection is only removed on drop")
    }
}

impl Deref for PooledSession {
    type Target = PgSession;

    fn deref(&self) -> &PgSession {
        self.object()
    }
}

impl DerefMut for PooledSession {
    fn deref_mut(&mut self) -> &mut PgSession {
        let object = self.0.as_mut();
        object.expect("the connection is only removed on drop")
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        let Some(mut object) = self.0.take() else {
            return;
        };
        if object.is_busy || object.client.is_closed() {
            drop(Object::take(object));
        } else {
            object.idle_since = monotonic_now();
        }
    }
}
