//! This process among the others: its number, its heartbeat, and its clock.
//!
//! A process is alive while the heartbeat in its row is less than three seconds old. A heartbeat is the time of the
//! process that wrote it, not of the database, so a jump of the database's clock changes no process's liveness. The
//! number makes the process's IDs unique. The number that has been unused longest is assigned first, so a process that
//! was only suspended rarely finds its number taken; if it does, it takes another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use model::id::EventId;
use model::time::Time;
use postgres::{Connector, PgSession, QueryError, SqlValues};
use tokio::sync::watch;
use tokio_postgres::Row;

use crate::error::Error;
use crate::ids::{IdGenerator, SLOTS};
use crate::postgres::clock::{DatabaseClock, monotonic_now};
use crate::postgres::pool::open_session;
use crate::postgres::query_error::IntoStoreError as _;
use crate::rows::OwnerId;

/// Interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A process without a heartbeat for this time counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Maximum duration of a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// A process that joins live processes uses their time; the first one uses the database's time.
const ENTER: &str = "SELECT noetl.micros() + coalesce((
        SELECT r.clock_offset FROM noetl.runtime r
        WHERE abs(noetl.micros() + r.clock_offset - r.heartbeat) < 3000000 ORDER BY r.started_at LIMIT 1
    ), 0), gen_random_uuid()::text";

/// This process in the table of processes.
pub(super) struct ProcessRegistration {
    pub(super) owner: OwnerId,
    pub(super) clock: DatabaseClock,
    address: Option<String>,
    publishes: bool,
    number: RwLock<(u8, IdGenerator)>,
    last_heartbeat: Mutex<Instant>,
    /// The last known heartbeat of each other process.
    other_heartbeats: Mutex<BTreeMap<String, i64>>,
    /// Why the database refused the last heartbeat, if it accepts no writes.
    refusal: Mutex<Option<Error>>,
}

impl ProcessRegistration {
    /// Registers this process under a free number.
    pub(super) async fn register(
        connector: &Connector,
        address: Option<String>,
        publishes: bool,
    ) -> Result<Arc<Self>, Error> {
        let mut session = open_session(connector, HEARTBEAT_TIMEOUT).await?;
        let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
        let row = session.client.query_one(ENTER, &[]).await.map_err(to_store_error)?;
        let owner: String = row.try_get(1).map_err(to_store_error)?;
        let mut registration = Self {
            owner: OwnerId(owner.into()),
            clock: DatabaseClock::new(Time(row.try_get(0).map_err(to_store_error)?)),
            address,
            publishes,
            number: RwLock::new((0, IdGenerator::new(0))),
            last_heartbeat: Mutex::new(monotonic_now()),
            other_heartbeats: Mutex::default(),
            refusal: Mutex::default(),
        };
        let number = registration.claim_number(&mut session, connector).await?;
        registration.number = RwLock::new((number, IdGenerator::new(number)));
        Ok(Arc::new(registration))
    }

    pub(super) fn ids(&self, count: u32) -> EventId {
        let number = self.number.read().expect("drawing ids does not panic");
        number.1.draw(self.clock.now(), count)
    }

    /// Whether the last heartbeat is recent enough for others to see this process as alive.
    pub(super) fn is_alive_to_others(&self) -> bool {
        let last = *self.last_heartbeat.lock().expect("a heartbeat does not panic");
        monotonic_now().saturating_duration_since(last) < SILENCE_MAX
    }

    /// Why the database accepts no writes, if it does not.
    pub(super) fn refusal(&self) -> Option<Error> {
        let refusal = self.refusal.lock().expect("a heartbeat does not panic");
        refusal.as_ref().and_then(Error::to_write_refusal)
    }

    fn set_refusal(&self, refusal: Option<Error>) {
        *self.refusal.lock().expect("a heartbeat does not panic") = refusal;
    }

    /// Sends heartbeats until stopped, then deregisters the process.
    pub(super) async fn run_heartbeats(self: Arc<Self>, connector: Connector, mut stop: watch::Receiver<()>) {
        let mut session = None;
        loop {
            tokio::select! {
                // The store dropped the sender.
                _ = stop.changed() => break,
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            }
            let heartbeat =
                tokio::time::timeout(HEARTBEAT_TIMEOUT, self.send_heartbeat(&connector, &mut session)).await;
            if let Err(error) =
                heartbeat.unwrap_or_else(|_| Err(Error::Unavailable("no response to a heartbeat".into())))
            {
                tracing::warn!(error = crate::error::error_chain(&error), "heartbeat failed; retrying");
                self.set_refusal(error.to_write_refusal());
                session = None;
            } else {
                self.set_refusal(None);
            }
        }
        let unregistered = tokio::time::timeout(HEARTBEAT_TIMEOUT, self.unregister(&connector, session)).await;
        if !matches!(unregistered, Ok(Ok(()))) {
            tracing::debug!("failed to deregister server; peers will notice within 3 s");
        }
    }

    async fn send_heartbeat(&self, connector: &Connector, idle_session: &mut Option<PgSession>) -> Result<(), Error> {
        const UPDATE: &str = "UPDATE noetl.runtime SET heartbeat = $3, clock_offset = $3 - noetl.micros()
            WHERE node = $1 AND owner = $2
            RETURNING noetl.micros(),
                ARRAY(SELECT r.owner FROM noetl.runtime r WHERE r.heartbeat > 0 AND r.owner <> $2 ORDER BY r.node),
                ARRAY(SELECT r.heartbeat FROM noetl.runtime r WHERE r.heartbeat > 0 AND r.owner <> $2 ORDER BY r.node)";
        let session = match idle_session {
            Some(session) => session,
            None => idle_session.insert(open_session(connector, HEARTBEAT_TIMEOUT).await?),
        };
        let node = self.number.read().expect("drawing ids does not panic").0;
        let sent_at = monotonic_now();
        let rows = session
            .query(UPDATE, &[&i32::from(node), &&*self.owner.0, &self.clock.now().0])
            .await;
        let rows = rows.map_err(|query_error| query_error.into_store_error(&connector.target))?;
        if let Some(row) = rows.first() {
            let round_trip = monotonic_now().saturating_duration_since(sent_at);
            self.set_clock(row, round_trip)
                .map_err(|error| QueryError::from(error).into_store_error(&connector.target))?;
        } else {
            let number = self.claim_number(session, connector).await?;
            *self.number.write().expect("drawing ids does not panic") = (number, IdGenerator::new(number));
        }
        *self.last_heartbeat.lock().expect("a heartbeat does not panic") = monotonic_now();
        Ok(())
    }

    /// A negative heartbeat marks a process that has left. Its age still counts for the assignment of numbers.
    async fn unregister(&self, connector: &Connector, idle_session: Option<PgSession>) -> Result<(), Error> {
        const LEAVE: &str = "UPDATE noetl.runtime SET heartbeat = -abs(heartbeat) WHERE owner = $1";
        let mut session = match idle_session {
            Some(session) => session,
            None => open_session(connector, HEARTBEAT_TIMEOUT).await?,
        };
        let response = session.query(LEAVE, &[&&*self.owner.0]).await;
        response
            .map(drop)
            .map_err(|error| error.into_store_error(&connector.target))
    }

    /// Takes a number that no live process has.
    async fn claim_number(&self, session: &mut PgSession, connector: &Connector) -> Result<u8, Error> {
        let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
        let transaction = session.client.transaction().await.map_err(to_store_error)?;
        let lock = "LOCK TABLE noetl.runtime IN SHARE ROW EXCLUSIVE MODE";
        transaction.batch_execute(lock).await.map_err(to_store_error)?;
        let sql = "SELECT n FROM generate_series(0, $1) AS n LEFT JOIN noetl.runtime r ON r.node = n
            WHERE r.node IS NULL OR abs(r.heartbeat - $2) >= 3000000
            ORDER BY abs(r.heartbeat) NULLS FIRST, n LIMIT 1";
        let (last, now) = (i32::from(SLOTS) - 1, self.clock.now().0);
        let free_number = transaction.query_opt(sql, &[&last, &now]).await;
        let Some(row) = free_number.map_err(to_store_error)? else {
            let message = format!("{SLOTS} processes already use the database, which is the limit");
            return Err(Error::Unavailable(message.into()));
        };
        let node: i32 = row.try_get(0).map_err(to_store_error)?;
        let clear = "DELETE FROM noetl.runtime WHERE node = $1 OR owner = $2";
        let owner = &*self.owner.0;
        let clear = transaction.execute(clear, &[&node, &owner]).await;
        clear.map_err(to_store_error)?;
        let enter = "INSERT INTO noetl.runtime (node, owner, address, started_at, heartbeat, clock_offset, publishes)
            VALUES ($1, $2, $3, $4, $4, $4 - noetl.micros(), $5)";
        let values: SqlValues<'_> = &[&node, &owner, &self.address, &now, &self.publishes];
        let enter = transaction.execute(enter, values).await;
        enter.map_err(to_store_error)?;
        transaction.commit().await.map_err(to_store_error)?;
        u8::try_from(node).map_err(|error| Error::Unavailable(error.into()))
    }

    /// Corrects the clock with the results of a heartbeat: the database's time, and the times of the other processes.
    fn set_clock(&self, row: &Row, round_trip: Duration) -> Result<(), tokio_postgres::Error> {
        let owners: Vec<String> = row.try_get(1)?;
        let times: Vec<i64> = row.try_get(2)?;
        let latest: BTreeMap<String, i64> = owners.into_iter().zip(times).collect();
        let mut heartbeats = self.other_heartbeats.lock().expect("a heartbeat does not panic");
        // Only a process whose heartbeat has changed is known to be alive.
        let changed = latest.iter().filter(|(owner, heartbeat)| {
            let previous = heartbeats.get(*owner);
            previous.is_some_and(|previous| previous < *heartbeat)
        });
        if let Some(latest_change) = changed.map(|(_, heartbeat)| *heartbeat).max() {
            self.clock.catch_up(Time(latest_change));
        }
        *heartbeats = latest;
        self.clock.correct(Time(row.try_get(0)?), round_trip);
        Ok(())
    }
}
