//! Connections, a few for each credential: kept for the next call, closed when nobody comes, dropped when in doubt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use model::outcome::{ErrorKind, TaskError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Client};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::exhaustion::{exhausted, find_connect_shortage, find_shortage_in};
use crate::postgres::failure::{silent, unreached};
use crate::postgres::target::Target;
use crate::postgres::tls::tls;
use crate::postgres::tool::PostgresConfig;
use crate::postgres::{guard, session};

/// How long a call waits for a connection that others use.
const ROOM_MAX: Duration = Duration::from_secs(60);
/// A connection that nobody used for so long is asked whether it lives.
const FRESH: Duration = Duration::from_secs(1);
/// How long that, or leaving a session as it was, may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The pools of all credentials.
pub(crate) struct Pools {
    config: PostgresConfig,
    pools: Arc<Mutex<Vec<Arc<Pool>>>>,
}

/// The connections of one credential.
struct Pool {
    target: Target,
    tls: MakeRustlsConnect,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    client: Client,
    since: Instant,
}

/// A connection in use. One that is not given back is closed.
pub(crate) struct Lease {
    client: Client,
    pool: Arc<Pool>,
    room: OwnedSemaphorePermit,
}

/// Stops what a connection is doing.
pub(crate) struct Stopper {
    token: CancelToken,
    tls: MakeRustlsConnect,
}

impl Pools {
    pub(crate) fn new(config: PostgresConfig) -> Self {
        Self {
            config,
            pools: Arc::default(),
        }
    }

    /// A connection that works, and is no engine's own.
    pub(crate) async fn lease(
        &self,
        target: Target,
        connect_max: Duration,
    ) -> Result<Lease, TaskError> {
        let pool = self.pool(target)?;
        let room = timeout(ROOM_MAX, pool.room.clone().acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            return Err(self.full(&pool.target));
        };
        while let Some(idle) = pool.pop() {
            if idle.lives().await {
                let client = idle.client;
                return Ok(Lease { client, pool, room });
            }
        }
        let client = self.connect(&pool, connect_max).await?;
        Ok(Lease { client, pool, room })
    }

    fn pool(&self, target: Target) -> Result<Arc<Pool>, TaskError> {
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.iter().find(|pool| pool.target == target) {
            return Ok(pool.clone());
        }
        let tls = tls(&target).map_err(|why| match find_shortage_in(&why) {
            Some(shortage) => exhausted(&shortage),
            None => TaskError::new(
                ErrorKind::Auth,
                "AUTH_INVALID",
                format!("{}: {why}", target.place()),
            ),
        })?;
        let pool = Arc::new(Pool {
            target,
            tls,
            room: Arc::new(Semaphore::new(self.config.connections_max.max(1))),
            idle: Mutex::default(),
        });
        pools.push(pool.clone());
        tokio::spawn(close_idle(
            Arc::downgrade(&self.pools),
            self.config.idle_max,
        ));
        Ok(pool)
    }

    async fn connect(&self, pool: &Pool, connect_max: Duration) -> Result<Client, TaskError> {
        let target = &pool.target;
        let place = target.place();
        let mut config = target.config.clone();
        config.connect_timeout(connect_max);
        let begun = async {
            let (client, connection) = config.connect(pool.tls.clone()).await?;
            // Errors of the connection come back to whoever waits for an answer.
            tokio::spawn(connection);
            client.batch_execute(session::BEGIN).await?;
            let checked = guard::check(&client, target, &self.config.allow).await?;
            Ok::<_, tokio_postgres::Error>(checked.map(|()| client))
        };
        // An encrypted connection is large; whoever waits for it need not be.
        let begun = timeout(connect_max, Box::pin(begun)).await;
        begun
            .map_err(|_| silent(&place))?
            .map_err(|error| match find_connect_shortage(&error) {
                Some(shortage) => shortage,
                None => unreached(&error, &place),
            })?
    }

    fn full(&self, target: &Target) -> TaskError {
        let message = format!(
            "all {} connections to {} are in use",
            self.config.connections_max,
            target.place()
        );
        TaskError {
            retryable: true,
            ..TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", message)
        }
        .with("sent", false)
    }
}

impl Pool {
    fn pop(&self) -> Option<Idle> {
        lock(&self.idle).pop()
    }

    /// Leaves a session as the next call expects it, and keeps it.
    async fn take_back(&self, client: Client) {
        let reset = timeout(ANSWER_MAX, client.batch_execute(session::RESET)).await;
        if matches!(reset, Ok(Ok(()))) {
            let since = Instant::now();
            lock(&self.idle).push(Idle { client, since });
        }
    }
}

impl Idle {
    async fn lives(&self) -> bool {
        if self.client.is_closed() {
            return false;
        }
        if self.since.elapsed() < FRESH {
            return true;
        }
        let asked = timeout(ANSWER_MAX, self.client.check_connection()).await;
        matches!(asked, Ok(Ok(())))
    }
}

impl Lease {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper {
            token: self.client.cancel_token(),
            tls: self.pool.tls.clone(),
        }
    }

    /// Keeps the connection for the next call. Nobody waits for that but those who wait for a connection.
    pub(crate) fn give_back(self) {
        tokio::spawn(async move {
            self.pool.take_back(self.client).await;
            drop(self.room);
        });
    }
}

impl Stopper {
    /// Tells the server to stop; an answer comes by the connection itself.
    pub(crate) async fn stop(self) {
        // A server that cannot be told is given up with the connection.
        let _ = timeout(ANSWER_MAX, Box::pin(self.token.cancel_query(self.tls))).await;
    }
}

/// Closes connections that nobody used for a while, and forgets pools without any; ends with the last pool.
async fn close_idle(pools: Weak<Mutex<Vec<Arc<Pool>>>>, idle_max: Duration) {
    loop {
        tokio::time::sleep(idle_max / 2).await;
        let Some(pools) = pools.upgrade() else { return };
        let mut pools = lock(&pools);
        pools.retain(|pool| {
            let mut idle = lock(&pool.idle);
            idle.retain(|idle| !idle.client.is_closed() && idle.since.elapsed() < idle_max);
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
