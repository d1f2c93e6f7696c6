//! Heartbeats to the server, and notices from the server between reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::api::{HeartbeatRequest, WorkerDescription};

use crate::backoff::RetryBackoff;
use crate::lease::LeaseState;
use crate::worker::{Config, WorkerShared};

/// After this time without a heartbeat response the worker stops its tasks, because the server may reassign its
/// commands.
const HEARTBEAT_GAP_MAX: Duration = Duration::from_secs(13);

/// Sends heartbeats until `ended` is cancelled. Cancels `replaced` if another process replaces the worker's session.
pub(crate) async fn send_heartbeats(shared: Arc<WorkerShared>, ended: CancellationToken, replaced: CancellationToken) {
    let mut last_contact = Instant::now();
    loop {
        let worker = shared.config.worker.clone();
        let request = HeartbeatRequest {
            description: describe(&shared.config),
            ..HeartbeatRequest::new(worker, shared.claim_ids())
        };
        let reply = tokio::select! {
            reply = shared.transport.heartbeat(&request) => reply,
            () = tokio::time::sleep_until(last_contact + HEARTBEAT_GAP_MAX) => {
                abandon_all(&shared);
                last_contact = Instant::now();
                continue;
            }
            () = ended.cancelled() => return,
        };
        match reply {
            Ok(()) => last_contact = Instant::now(),
            Err(error @ wire::Error::SessionReplaced(_)) => {
                tracing::error!(%error, "worker session was replaced; stopping");
                shared.restrict_all(LeaseState::Lost);
                replaced.cancel();
                return;
            }
            Err(wire::Error::Fenced(_)) => shared.restrict_all(LeaseState::Lost),
            Err(error) => tracing::debug!(%error, "heartbeat failed; retrying"),
        }
        shared.secret_cache.remove_idle();
        tokio::select! {
            () = tokio::time::sleep(shared.config.heartbeat) => {}
            () = ended.cancelled() => return,
        }
        if last_contact.elapsed() >= HEARTBEAT_GAP_MAX {
            abandon_all(&shared);
            last_contact = Instant::now();
        }
    }
}

/// What the worker sends about itself.
fn describe(config: &Config) -> WorkerDescription {
    WorkerDescription {
        pool: Some(config.pool.clone()),
        slots: Some(config.slots),
        kinds: config.kinds.clone(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

fn abandon_all(shared: &WorkerShared) {
    tracing::warn!(
        "no heartbeat response for {} s; stopping running tasks",
        HEARTBEAT_GAP_MAX.as_secs()
    );
    shared.restrict_all(LeaseState::Abandoned);
}

/// Receives notices by long polling until `ended` is cancelled.
pub(crate) async fn receive_notices(shared: Arc<WorkerShared>, ended: CancellationToken) {
    let mut backoff = RetryBackoff::default();
    loop {
        let reply = tokio::select! {
            reply = shared.transport.listen(&shared.config.worker) => reply,
            () = ended.cancelled() => return,
        };
        match reply {
            Ok(reply) => {
                backoff.reset();
                shared.apply_notices(&reply);
            }
            Err(error) => {
                tracing::debug!(%error, "long poll failed; retrying");
                tokio::select! {
                    () = backoff.wait() => {}
                    () = ended.cancelled() => return,
                }
            }
        }
    }
}
