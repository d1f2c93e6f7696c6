//! Pools of connections, one per credential. Idle connections are closed after a while, doubtful ones at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use postgres::{
    ConnectError, ConnectTarget, ConnectionPool, Connector, PlanMode, PoolOptions, PooledSession, QueryError,
    RESPONSE_MAX,
};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Client};

use crate::certificates::system_certificates;
use crate::exhaustion::{exhausted_error, find_connect_shortage, find_shortage_in};
use crate::postgres::failure::{connect_error, connect_timeout_error};
use crate::postgres::tool::PostgresConfig;
use crate::postgres::{guard, session};

/// How long a call waits for a connection that others use.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(60);
/// A connection that was idle for longer is checked before it is used.
const LIVENESS_CHECK_AFTER: Duration = Duration::from_secs(1);

/// The pools of all credentials.
pub struct PostgresPools {
    config: PostgresConfig,
    pools: Arc<Mutex<Vec<Arc<ConnectionPool>>>>,
}

/// A connection in use. It is closed unless it is released.
pub struct PooledConnection {
    session: PooledSession,
    pool: Arc<ConnectionPool>,
}

/// Cancels the statement of a connection.
pub struct QueryCanceller {
    token: CancelToken,
    connector: Connector,
}

impl PostgresPools {
    pub fn new(config: PostgresConfig) -> Self {
        Self {
            config,
            pools: Arc::default(),
        }
    }

    /// A working connection to a database that is not a NoETL store.
    pub async fn acquire(&self, target: ConnectTarget, connect_max: Duration) -> Result<PooledConnection, TaskError> {
        let location = target.location();
        let pool = self.pool(target)?;
        let acquired = pool.acquire(connect_max).await;
        let mut session = acquired.map_err(|error| acquire_error(error, &location))?;
        // Whether the session must be reset before it is used again.
        session.discard();
        if session.is_new() {
            let target = &pool.connector().target;
            let checking = guard::check_target(&session.client, target, &self.config.allow);
            let checked = timeout(connect_max, checking).await;
            checked
                .map_err(|_| connect_timeout_error(&location))?
                .map_err(|error| failed_error(&error, &location))??;
        }
        Ok(PooledConnection { session, pool })
    }

    fn pool(&self, target: ConnectTarget) -> Result<Arc<ConnectionPool>, TaskError> {
        let mut pools = lock(&self.pools);
        let is_same = |pool: &&Arc<ConnectionPool>| *pool.connector().target == target;
        if let Some(pool) = pools.iter().find(is_same) {
            return Ok(pool.clone());
        }
        let location = target.location();
        let roots = || system_certificates().map(<[_]>::to_vec);
        let connector = Connector::with_system_roots(target, roots).map_err(|error| {
            match find_shortage_in(&error.to_string()) {
                Some(shortage) => exhausted_error(&shortage),
                None => TaskError::new(ErrorKind::Auth, "AUTH_INVALID", format!("{location}: {error}")),
            }
        })?;
        let options = PoolOptions {
            size: self.config.connections_max.max(1),
            permit_wait_max: PERMIT_WAIT_MAX,
            settings: session::SESSION_SETTINGS.to_owned(),
            plan_mode: PlanMode::Custom,
            statement_max: RESPONSE_MAX,
            check_after: Some(LIVENESS_CHECK_AFTER),
        };
        let pool = Arc::new(ConnectionPool::new(connector, options));
        pools.push(pool.clone());
        tokio::spawn(close_idle(Arc::downgrade(&self.pools), self.config.idle_max));
        Ok(pool)
    }
}

fn acquire_error(error: QueryError, location: &str) -> TaskError {
    match error {
        QueryError::ConnectFailed(ConnectError::Failed(error)) => failed_error(&error, location),
        QueryError::ConnectFailed(ConnectError::TimedOut(_)) => connect_timeout_error(location),
        other => TaskError {
            retryable: true,
            ..TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", format!("{location}: {other}"))
        }
        .with_detail("sent", false),
    }
}

fn failed_error(error: &tokio_postgres::Error, location: &str) -> TaskError {
    let shortage = find_connect_shortage(error);
    shortage.unwrap_or_else(|| connect_error(error, location))
}

impl PooledConnection {
    pub fn client(&self) -> &Client {
        &self.session.client
    }

    pub fn canceller(&self) -> QueryCanceller {
        QueryCanceller {
            token: self.session.client.cancel_token(),
            connector: self.pool.connector().clone(),
        }
    }

    /// Resets the session and returns the connection to its pool. Only callers that wait for a connection wait for this.
    pub fn release(mut self) {
        tokio::spawn(async move {
            let reset = self.session.client.batch_execute(session::RESET_SESSION);
            if matches!(timeout(RESPONSE_MAX, reset).await, Ok(Ok(()))) {
                self.session.allow_reuse();
            }
        });
    }
}

impl QueryCanceller {
    /// Asks the server to stop; the response arrives on the connection itself.
    pub async fn cancel(self) {
        self.connector.cancel_query(self.token).await;
    }
}

/// Closes idle connections and drops pools without any; ends with the last pool.
async fn close_idle(pools: Weak<Mutex<Vec<Arc<ConnectionPool>>>>, idle_max: Duration) {
    loop {
        tokio::time::sleep(idle_max / 2).await;
        let Some(pools) = pools.upgrade() else { return };
        let mut pools = lock(&pools);
        pools.retain(|pool| pool.close_idle(idle_max) > 0 || Arc::strong_count(pool) > 1);
        if pools.is_empty() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The locks protect no multi-step updates, so poisoning is ignored.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
