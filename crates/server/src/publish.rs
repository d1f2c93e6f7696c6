//! Publishes durable events to the bus, in order and at least once.
//!
//! Of several servers with a bus on one store, the live one with the lowest owner ID publishes. If two publish for a
//! moment, the bus deduplicates events by ID.

use std::sync::Arc;
use std::time::Duration;

use model::id::Seq;
use wire::{Bus, Publication, to_publication};

use crate::ServerShared;
use crate::error::Error;

/// How long the publisher sleeps if no notification arrives.
const IDLE_PAUSE: Duration = Duration::from_millis(500);
/// Pause before the bus is tried again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of appends read at once.
const BATCH: usize = 256;
/// Maximum number of events published before their acknowledgements are awaited.
const EVENTS_MAX: usize = 512;

/// Publishes events until the server stops.
pub(crate) async fn run_publisher(shared: Arc<ServerShared>, bus: Arc<dyn Bus>) {
    let mut after = 0;
    loop {
        match is_publisher(&shared).await {
            Ok(true) => match publish_outbox(&shared, &*bus, &mut after).await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to publish events; retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            },
            // When this server publishes again, it continues from the position in the store.
            Ok(false) => after = 0,
            Err(error) => {
                tracing::warn!(%error, "failed to determine which server publishes events; retrying");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE_PAUSE) => {}
            () = shared.sweep_signals.outbox.notified() => {}
        }
    }
}

/// Why events could not be published.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Bus(#[from] wire::BusError),
    #[error(transparent)]
    Store(#[from] store::Error),
}

async fn is_publisher(shared: &ServerShared) -> Result<bool, Error> {
    let processes = shared.store.processes().await?;
    let publishers = processes
        .into_iter()
        .filter(|process| process.is_alive && process.publishes);
    let first = publishers.map(|publisher| publisher.owner).min();
    Ok(first.is_none_or(|first| first == shared.owner))
}

/// Publishes all events in the outbox.
async fn publish_outbox(shared: &ServerShared, bus: &dyn Bus, after: &mut u64) -> Result<(), PublishError> {
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
            waiting.extend(events.iter().map(to_publication));
            if waiting.len() >= EVENTS_MAX {
                bus.publish(&std::mem::take(&mut waiting)).await?;
            }
        }
        bus.publish(&waiting).await?;
        shared.store.mark_published(last).await?;
        *after = last;
    }
}

/// Forwards notifications from the bus to workers that wait at this server.
pub(crate) async fn forward_notifications(shared: Arc<ServerShared>, bus: Arc<dyn Bus>) {
    loop {
        bus.wait_for_notification().await;
        if shared
            .driver
            .send(crate::driver::DriverRequest::RecheckOffers)
            .await
            .is_err()
        {
            return;
        }
    }
}
