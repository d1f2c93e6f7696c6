//! Connections, a few for each credential: kept for the next call, closed when nobody comes, dropped when in doubt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use model::outcome::{ErrorKind, TaskError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Client};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::exhaustion::{exhausted_error, find_connect_shortage, find_shortage_in};
use crate::postgres::failure::{connect_error, connect_timeout_error};
use crate::postgres::target::PostgresTarget;
use crate::postgres::tls::tls_connector;
use crate::postgres::tool::PostgresConfig;
use crate::postgres::{guard, session};

/// How long a call waits for a connection that others use.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(60);
/// A connection that nobody used for so long is asked whether it lives.
const LIVENESS_CHECK_AFTER: Duration = Duration::from_secs(1);
/// How long that, or leaving a session as it was, may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pools of all credentials.
pub(crate) struct PostgresPools {
    config: PostgresConfig,
    pools: Arc<Mutex<Vec<Arc<TargetPool>>>>,
}

/// The connections of one credential.
struct TargetPool {
    target: PostgresTarget,
    tls: MakeRustlsConnect,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    client: Client,
    idle_since: Instant,
}

/// A connection in use. One that is not given back is closed.
pub(crate) struct PooledConnection {
    client: Client,
    pool: Arc<TargetPool>,
    permit: OwnedSemaphorePermit,
}

/// Stops what a connection is doing.
pub(crate) struct QueryCanceller {
    token: CancelToken,
    tls: MakeRustlsConnect,
}

impl PostgresPools {
    pub(crate) fn new(config: PostgresConfig) -> Self {
        Self {
            config,
            pools: Arc::default(),
        }
    }

    /// A connection that works, and is no engine's own.
    pub(crate) async fn acquire(
        &self,
        target: PostgresTarget,
        connect_max: Duration,
    ) -> Result<PooledConnection, TaskError> {
        let pool = self.pool(target)?;
        let room = timeout(PERMIT_WAIT_MAX, pool.permits.clone().acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            return Err(self.pool_full_error(&pool.target));
        };
        while let Some(idle) = pool.pop_idle() {
            if idle.is_alive().await {
                let client = idle.client;
                return Ok(PooledConnection {
                    client,
                    pool,
                    permit: room,
                });
            }
        }
        let client = self.connect(&pool, connect_max).await?;
        Ok(PooledConnection {
            client,
            pool,
            permit: room,
        })
    }

    fn pool(&self, target: PostgresTarget) -> Result<Arc<TargetPool>, TaskError> {
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.iter().find(|pool| pool.target == target) {
            return Ok(pool.clone());
        }
        let tls = tls_connector(&target).map_err(|why| match find_shortage_in(&why) {
            Some(shortage) => exhausted_error(&shortage),
            None => TaskError::new(
                ErrorKind::Auth,
                "AUTH_INVALID",
                format!("{}: {why}", target.location()),
            ),
        })?;
        let pool = Arc::new(TargetPool {
            target,
            tls,
            permits: Arc::new(Semaphore::new(self.config.connections_max.max(1))),
            idle: Mutex::default(),
        });
        pools.push(pool.clone());
        tokio::spawn(close_idle(
            Arc::downgrade(&self.pools),
            self.config.idle_max,
        ));
        Ok(pool)
    }

    async fn connect(&self, pool: &TargetPool, connect_max: Duration) -> Result<Client, TaskError> {
        let target = &pool.target;
        let place = target.location();
        let mut config = target.config.clone();
        config.connect_timeout(connect_max);
        let begun = async {
            let (client, connection) = config.connect(pool.tls.clone()).await?;
            // Errors of the connection come back to whoever waits for an answer.
            tokio::spawn(connection);
            client.batch_execute(session::SESSION_SETTINGS).await?;
            let checked = guard::check_target(&client, target, &self.config.allow).await?;
            Ok::<_, tokio_postgres::Error>(checked.map(|()| client))
        };
        // An encrypted connection is large; whoever waits for it need not be.
        let begun = timeout(connect_max, Box::pin(begun)).await;
        begun
            .map_err(|_| connect_timeout_error(&place))?
            .map_err(|error| match find_connect_shortage(&error) {
                Some(shortage) => shortage,
                None => connect_error(&error, &place),
            })?
    }

    fn pool_full_error(&self, target: &PostgresTarget) -> TaskError {
        let message = format!(
            "all {} connections to {} are in use",
            self.config.connections_max,
            target.location()
        );
        TaskError {
            retryable: true,
            ..TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", message)
        }
        .with_detail("sent", false)
    }
}

impl TargetPool {
    fn pop_idle(&self) -> Option<IdleConnection> {
        lock(&self.idle).pop()
    }

    /// Leaves a session as the next call expects it, and keeps it.
    async fn return_client(&self, client: Client) {
        let reset = timeout(
            RESPONSE_TIMEOUT,
            client.batch_execute(session::RESET_SESSION),
        )
        .await;
        if matches!(reset, Ok(Ok(()))) {
            let since = Instant::now();
            lock(&self.idle).push(IdleConnection {
                client,
                idle_since: since,
            });
        }
    }
}

impl IdleConnection {
    async fn is_alive(&self) -> bool {
        if self.client.is_closed() {
            return false;
        }
        if self.idle_since.elapsed() < LIVENESS_CHECK_AFTER {
            return true;
        }
        let asked = timeout(RESPONSE_TIMEOUT, self.client.check_connection()).await;
        matches!(asked, Ok(Ok(())))
    }
}

impl PooledConnection {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn canceller(&self) -> QueryCanceller {
        QueryCanceller {
            token: self.client.cancel_token(),
            tls: self.pool.tls.clone(),
        }
    }

    /// Keeps the connection for the next call. Nobody waits for that but those who wait for a connection.
    pub(crate) fn release(self) {
        tokio::spawn(async move {
            self.pool.return_client(self.client).await;
            drop(self.permit);
        });
    }
}

impl QueryCanceller {
    /// Tells the server to stop; an answer comes by the connection itself.
    pub(crate) async fn cancel(self) {
        // A server that cannot be told is given up with the connection.
        let _ = timeout(
            RESPONSE_TIMEOUT,
            Box::pin(self.token.cancel_query(self.tls)),
        )
        .await;
    }
}

/// Closes connections that nobody used for a while, and forgets pools without any; ends with the last pool.
async fn close_idle(pools: Weak<Mutex<Vec<Arc<TargetPool>>>>, idle_max: Duration) {
    loop {
        tokio::time::sleep(idle_max / 2).await;
        let Some(pools) = pools.upgrade() else { return };
        let mut pools = lock(&pools);
        pools.retain(|pool| {
            let mut idle = lock(&pool.idle);
            idle.retain(|idle| !idle.client.is_closed() && idle.idle_since.elapsed() < idle_max);
            !idle.is_empty() || Arc::strong_count(pool) > 1
        });
        if pools.is_empty() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can be left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
