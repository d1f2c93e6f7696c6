//! Hints between processes: who committed tells, who waits hears, on a connection beside the others.
//!
//! Telling is not part of a commit, because the database lets only one transaction at a time tell. A hint that is lost
//! costs half a second, never work.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_postgres::{AsyncMessage, Client};

use crate::error::Error;
use crate::postgres::failure::Fault;
use crate::postgres::pool::Connector;
use crate::rows::OwnerId;

/// Hints are sent at most this often.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// The longest that waiting for a hint takes; callers look again.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// The way between those who commit, those who wait, and the connection.
#[derive(Default)]
pub(super) struct Hints {
    told: Notify,
    heard: Notify,
    waiting: AtomicUsize,
}

/// Counts a waiter for as long as it waits.
struct Waiting<'h>(&'h AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hints {
    /// This process changed something that others may wait for.
    pub(super) fn tell(&self) {
        self.told.notify_one();
    }

    /// Another process did. A hint that nobody waits for is kept for the next who does.
    fn hear(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            self.heard.notify_one();
        } else {
            self.heard.notify_waiters();
        }
    }

    /// Resolves on a hint, or after a while.
    pub(super) async fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        // Without a hint the caller looks again all the same.
        let _ = tokio::time::timeout(WAIT_MAX, self.heard.notified()).await;
    }
}

/// Listens and tells until told to stop; a connection that breaks is made again.
pub(super) async fn run(
    hints: Arc<Hints>,
    connector: Connector,
    owner: OwnerId,
    mut stop: watch::Receiver<()>,
) {
    loop {
        let ended = tokio::select! {
            // The sender is gone with the store.
            _ = stop.changed() => return,
            ended = serve(&hints, &connector, &owner) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(
                error = crate::error::chain(&error),
                "the connection for hints broke"
            );
        }
        hints.hear();
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(WAIT_MAX) => {}
        }
    }
}

async fn serve(hints: &Hints, connector: &Connector, owner: &OwnerId) -> Result<(), Error> {
    let (client, mut connection) = connector.connect().await?;
    let listening = async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(hint))) if hint.payload() != &*owner.0 => {
                    hints.hear();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let named = |error: tokio_postgres::Error| Fault::from(error).named(&connector.target);
    tokio::select! {
        ended = listening => ended.map_err(named),
        ended = tell(hints, connector, &client, owner) => ended,
    }
}

async fn tell(
    hints: &Hints,
    connector: &Connector,
    client: &Client,
    owner: &OwnerId,
) -> Result<(), Error> {
    let named = |error: tokio_postgres::Error| Fault::from(error).named(&connector.target);
    let listen = client.batch_execute("LISTEN noetl");
    connector.limit_wait(listen).await?.map_err(named)?;
    let prepare = client.prepare("SELECT pg_notify('noetl', $1)");
    let notify = connector.limit_wait(prepare).await?.map_err(named)?;
    // What happened before anyone listened is looked for once.
    hints.hear();
    loop {
        hints.told.notified().await;
        let name: &(dyn tokio_postgres::types::ToSql + Sync) = &&*owner.0;
        let values = [name];
        let notifying = client.query(&notify, &values);
        connector.limit_wait(notifying).await?.map_err(named)?;
        tokio::time::sleep(TELL_EVERY).await;
    }
}
