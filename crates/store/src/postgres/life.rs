//! This process among the others: its number, its heartbeat, and the clock that comes with it.
//!
//! A process lives while the heartbeat in its row is younger than three seconds by the database's clock. Its number
//! makes its ids its own; the number longest out of use is given out first, so that a process that was only stopped
//! for a while rarely finds its number taken, and takes another if it does.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use model::id::EventId;
use tokio::sync::watch;

use crate::error::Error;
use crate::ids::{Ids, SLOTS};
use crate::postgres::clock::{Clock, instant};
use crate::postgres::failure::Fault;
use crate::postgres::pool::{Connector, Session};
use crate::rows::OwnerId;

/// How often a process says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Without a heartbeat for so long a process counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// How long a heartbeat may take.
const BEAT_MAX: Duration = Duration::from_secs(2);

/// This process in the table of processes.
pub(super) struct Life {
    pub(super) owner: OwnerId,
    pub(super) clock: Clock,
    address: Option<String>,
    number: RwLock<(u8, Ids)>,
    last_beat: Mutex<Instant>,
    /// Why the last heartbeat was refused, if the database takes no writes.
    refusal: Mutex<Option<Error>>,
}

impl Life {
    /// Enters the table under a free number.
    pub(super) async fn enter(
        connector: &Connector,
        address: Option<String>,
    ) -> Result<Arc<Self>, Error> {
        let mut session = connector.session(BEAT_MAX).await?;
        let named = |error: tokio_postgres::Error| Fault::from(error).named(&connector.target);
        let shown = session
            .client
            .query_one("SELECT noetl.micros(), gen_random_uuid()::text", &[]);
        let shown = shown.await.map_err(named)?;
        let owner: String = shown.try_get(1).map_err(named)?;
        let owner = OwnerId(owner.into());
        let clock = Clock::new(shown.try_get(0).map_err(named)?);
        let number = take_number(&mut session, connector, &owner, address.as_deref()).await?;
        Ok(Arc::new(Self {
            owner,
            clock,
            address,
            number: RwLock::new((number, Ids::new(number))),
            last_beat: Mutex::new(instant()),
            refusal: Mutex::default(),
        }))
    }

    pub(super) fn ids(&self, count: u32) -> EventId {
        let number = self.number.read().expect("drawing ids does not panic");
        number.1.draw(self.clock.now(), count)
    }

    /// Whether the last heartbeat is young enough for others to see this process alive.
    pub(super) fn is_heard(&self) -> bool {
        let last = *self.last_beat.lock().expect("a heartbeat does not panic");
        instant().saturating_duration_since(last) < SILENCE_MAX
    }

    /// Why the database takes no writes, if that is so.
    pub(super) fn refusal(&self) -> Option<Error> {
        let refusal = self.refusal.lock().expect("a heartbeat does not panic");
        refusal.as_ref().and_then(Error::refused_write)
    }

    fn set_refusal(&self, refusal: Option<Error>) {
        *self.refusal.lock().expect("a heartbeat does not panic") = refusal;
    }

    /// Beats until told to stop, and then leaves.
    pub(super) async fn run(self: Arc<Self>, connector: Connector, mut stop: watch::Receiver<()>) {
        let mut session = None;
        loop {
            tokio::select! {
                // The sender is gone with the store.
                _ = stop.changed() => break,
                () = tokio::time::sleep(BEAT_EVERY) => {}
            }
            let beat = tokio::time::timeout(BEAT_MAX, self.beat(&connector, &mut session)).await;
            if let Err(error) =
                beat.unwrap_or_else(|_| Err(Error::Unavailable("no answer to a heartbeat".into())))
            {
                tracing::warn!(error = crate::error::chain(&error), "a heartbeat failed");
                self.set_refusal(error.refused_write());
                session = None;
            } else {
                self.set_refusal(None);
            }
        }
        let left = tokio::time::timeout(BEAT_MAX, self.leave(&connector, session)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!(
                "could not say goodbye to the database; others see it in three seconds"
            );
        }
    }

    async fn beat(&self, connector: &Connector, kept: &mut Option<Session>) -> Result<(), Error> {
        const BEAT: &str = "UPDATE noetl.runtime SET heartbeat = noetl.micros()
            WHERE node = $1 AND owner = $2 RETURNING noetl.micros()";
        let session = match kept {
            Some(session) => session,
            None => kept.insert(connector.session(BEAT_MAX).await?),
        };
        let node = self.number.read().expect("drawing ids does not panic").0;
        let asked = instant();
        let rows = session
            .query(BEAT, &[&i32::from(node), &&*self.owner.0])
            .await;
        let rows = rows.map_err(|fault| fault.named(&connector.target))?;
        if let Some(row) = rows.first() {
            let shown = row
                .try_get(0)
                .map_err(|error| Fault::from(error).named(&connector.target))?;
            self.clock
                .set(shown, instant().saturating_duration_since(asked));
        } else {
            let number =
                take_number(session, connector, &self.owner, self.address.as_deref()).await?;
            *self.number.write().expect("drawing ids does not panic") = (number, Ids::new(number));
        }
        *self.last_beat.lock().expect("a heartbeat does not panic") = instant();
        Ok(())
    }

    /// A negative heartbeat is a process that left; how recently still counts when numbers are given out.
    async fn leave(&self, connector: &Connector, kept: Option<Session>) -> Result<(), Error> {
        const LEAVE: &str = "UPDATE noetl.runtime SET heartbeat = -abs(heartbeat) WHERE owner = $1";
        let mut session = match kept {
            Some(session) => session,
            None => connector.session(BEAT_MAX).await?,
        };
        let left = session.query(LEAVE, &[&&*self.owner.0]).await;
        left.map(drop)
            .map_err(|fault| fault.named(&connector.target))
    }
}

/// Takes a number that no living process has.
async fn take_number(
    session: &mut Session,
    connector: &Connector,
    owner: &OwnerId,
    address: Option<&str>,
) -> Result<u8, Error> {
    let named = |error: tokio_postgres::Error| Fault::from(error).named(&connector.target);
    let transaction = session.client.transaction().await.map_err(named)?;
    let lock = "LOCK TABLE noetl.runtime IN SHARE ROW EXCLUSIVE MODE";
    transaction.batch_execute(lock).await.map_err(named)?;
    let free = "SELECT n FROM generate_series(0, $1) AS n LEFT JOIN noetl.runtime r ON r.node = n
        WHERE r.node IS NULL OR r.heartbeat <= noetl.micros() - 3000000
        ORDER BY abs(r.heartbeat) NULLS FIRST, n LIMIT 1";
    let last = i32::from(SLOTS) - 1;
    let Some(row) = transaction.query_opt(free, &[&last]).await.map_err(named)? else {
        let message = format!("{SLOTS} processes use the database already");
        return Err(Error::Unavailable(message.into()));
    };
    let node: i32 = row.try_get(0).map_err(named)?;
    let clear = "DELETE FROM noetl.runtime WHERE node = $1 OR owner = $2";
    transaction
        .execute(clear, &[&node, &&*owner.0])
        .await
        .map_err(named)?;
    let enter = "INSERT INTO noetl.runtime (node, owner, address, started_at, heartbeat)
        VALUES ($1, $2, $3, noetl.micros(), noetl.micros())";
    transaction
        .execute(enter, &[&node, &&*owner.0, &address])
        .await
        .map_err(named)?;
    transaction.commit().await.map_err(named)?;
    u8::try_from(node).map_err(|error| Error::Unavailable(error.into()))
}
