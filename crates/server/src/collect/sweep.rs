//! Periodic garbage collection by a long-running server.

use std::sync::Arc;
use std::time::Duration;

use model::raw::Raw;
use serde_json::json;
use store::{AuditEntry, AuditOutcome};
use tokio::time::Instant;

use super::round::{Collected, Collection, collect};
use crate::Shared;
use crate::error::Error;

/// How long the store must be available before a round starts, and the pause between two rounds.
const EVERY: Duration = Duration::from_secs(3600);
/// How often the availability of the store is checked. Workers that held a report back during an outage thus have time
/// to deliver it.
const LOOK: Duration = Duration::from_secs(30);
/// A round takes at most one part in this many of the time.
const SHARE: u32 = 20;

/// Collects garbage until the server stops.
pub(crate) async fn sweep(shared: Arc<Shared>, retention: Duration) {
    let mut next = Instant::now() + EVERY;
    loop {
        tokio::time::sleep(LOOK).await;
        if shared.store.health().is_err() || shared.store.setting("cluster_secret").await.is_err() {
            next = Instant::now() + EVERY;
            continue;
        }
        if Instant::now() < next {
            continue;
        }
        let begun = Instant::now();
        match round(&shared, retention).await {
            Ok(collected) if collected.bodies > 0 => {
                tracing::info!(
                    bodies = collected.bodies,
                    bytes = collected.bytes,
                    "deleted unreferenced bodies"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "failed to collect garbage; retrying later"),
        }
        next = Instant::now() + EVERY.max(begun.elapsed() * SHARE);
    }
}

async fn round(shared: &Shared, retention: Duration) -> Result<Collected, Error> {
    let how = Collection {
        retention,
        is_dry: false,
    };
    let collected = collect(&*shared.store, &*shared.bodies, how).await?;
    if collected.bodies > 0 {
        let entry = AuditEntry {
            actor: "server".to_owned(),
            action: "bodies.collect".into(),
            resource: "bodies".to_owned(),
            outcome: AuditOutcome::Done,
            source: None,
            detail: Some(Raw::of(
                &json!({"bodies": collected.bodies, "bytes": collected.bytes}),
            )),
        };
        shared.store.audit(entry).await?;
    }
    Ok(collected)
}
