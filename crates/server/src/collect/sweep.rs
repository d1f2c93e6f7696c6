//! The sweep: a round now and then, by a server that stays.

use std::sync::Arc;
use std::time::Duration;

use model::raw::Raw;
use serde_json::json;
use store::{AuditEntry, AuditOutcome};
use tokio::time::Instant;

use super::round::{Collected, Collection, collect};
use crate::Shared;
use crate::error::Error;

/// How long the store has answered before a round begins, and how long after one the next does.
const EVERY: Duration = Duration::from_secs(3600);
/// How often the store is asked whether it answers: whoever held a report back in the meantime then had time to deliver it.
const LOOK: Duration = Duration::from_secs(30);
/// A round takes at most this share of the time.
const SHARE: u32 = 20;

/// Collects bodies until the server stops.
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
                    "bodies were collected"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "bodies are not collected now; trying again"),
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
