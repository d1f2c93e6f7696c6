//! Periodic garbage collection by a long-running server.

use std::sync::Arc;
use std::time::Duration;

use model::raw::RawJson;
use serde_json::json;
use store::{AuditEntry, AuditOutcome};
use tokio::time::Instant;

use super::gc_pass::{GcOptions, GcStats, collect_garbage};
use crate::ServerShared;
use crate::error::Error;

/// How long the store must be available before a round starts, and the pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(3600);
/// How often the availability of the store is checked. Workers that held a report back during an outage thus have time
/// to deliver it.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// A round takes at most one part in this many of the time.
const TIME_SHARE: u32 = 20;

/// Collects garbage until the server stops.
pub(crate) async fn run_gc(shared: Arc<ServerShared>, retention: Duration) {
    let mut next = Instant::now() + ROUND_INTERVAL;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if shared.store.check_health().is_err() || shared.store.setting("cluster_secret").await.is_err() {
            next = Instant::now() + ROUND_INTERVAL;
            continue;
        }
        if Instant::now() < next {
            continue;
        }
        let started_at = Instant::now();
        match run_round(&shared, retention).await {
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
        next = Instant::now() + ROUND_INTERVAL.max(started_at.elapsed() * TIME_SHARE);
    }
}

async fn run_round(shared: &ServerShared, retention: Duration) -> Result<GcStats, Error> {
    let options = GcOptions {
        retention,
        is_dry_run: false,
    };
    let collected = collect_garbage(&*shared.store, &*shared.bodies, options).await?;
    if collected.bodies > 0 {
        let entry = AuditEntry {
            actor: "server".to_owned(),
            action: "bodies.collect".into(),
            resource: "bodies".to_owned(),
            outcome: AuditOutcome::Done,
            source: None,
            detail: Some(RawJson::from_serializable(
                &json!({"bodies": collected.bodies, "bytes": collected.bytes}),
            )),
        };
        shared.store.add_audit_entry(entry).await?;
    }
    Ok(collected)
}
