//! Publishing: what is durable and not yet on the bus goes there, in order, at least once.
//!
//! Of several servers on one store the one whose name comes first among the living publishes; should two do so for a
//! moment, the bus knows an event by its id.

use std::sync::Arc;
use std::time::Duration;

use model::id::Seq;
use wire::{Bus, Publication, published};

use crate::Shared;
use crate::error::Error;

/// How long the publisher sleeps when nothing calls it.
const IDLE: Duration = Duration::from_millis(500);
/// How long it waits before it tries a bus again that cannot be used.
const AGAIN: Duration = Duration::from_secs(1);
/// So many appends are taken up at once.
const BATCH: usize = 256;
/// So many events are published before their acknowledgements are waited for.
const EVENTS_MAX: usize = 512;

/// Publishes for as long as the server runs.
pub(crate) async fn publish(shared: Arc<Shared>, bus: Arc<dyn Bus>) {
    let mut after = 0;
    loop {
        match is_first(&shared).await {
            Ok(true) => match drain(&shared, &*bus, &mut after).await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "events cannot be published; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            },
            // Whoever publishes next begins where the store says, not where this server once stood.
            Ok(false) => after = 0,
            Err(error) => tracing::warn!(%error, "cannot tell who publishes; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE) => {}
            () = shared.sweeps.outbox.notified() => {}
        }
    }
}

/// Why events could not be published.
#[derive(Debug, thiserror::Error)]
enum Unpublished {
    #[error(transparent)]
    Bus(#[from] wire::BusError),
    #[error(transparent)]
    Store(#[from] store::Error),
}

async fn is_first(shared: &Shared) -> Result<bool, Error> {
    let peers = shared.store.peers().await?;
    let living = peers.into_iter().filter(|peer| peer.alive);
    let first = living.map(|peer| peer.owner).min();
    Ok(first.is_none_or(|first| first == shared.owner))
}

/// Publishes everything that waits.
async fn drain(shared: &Shared, bus: &dyn Bus, after: &mut u64) -> Result<(), Unpublished> {
    loop {
        let rows = shared.store.outbox(*after, BATCH).await?;
        let Some(last) = rows.last().map(|row| row.position) else {
            return Ok(());
        };
        let mut waiting: Vec<Publication> = Vec::new();
        for row in &rows {
            let before = Seq(row.seq_first.0.saturating_sub(1));
            let count = usize::try_from(row.seq_last.0 - before.0).unwrap_or(usize::MAX);
            let events = shared.store.events(row.execution, before, count).await?;
            waiting.extend(events.iter().map(published));
            if waiting.len() >= EVENTS_MAX {
                bus.publish(&std::mem::take(&mut waiting)).await?;
            }
        }
        bus.publish(&waiting).await?;
        shared.store.outbox_done(last).await?;
        *after = last;
    }
}

/// Passes hints on from the bus to workers that wait here.
pub(crate) async fn hear(shared: Arc<Shared>, bus: Arc<dyn Bus>) {
    loop {
        bus.offered().await;
        if shared
            .drive
            .send(crate::drive::Order::Offered)
            .await
            .is_err()
        {
            return;
        }
    }
}
