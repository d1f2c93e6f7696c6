//! Heartbeats to the server, and notices from the server between reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::Pulse;

use crate::lease::Order;
use crate::patience::Backoff;
use crate::worker::Shared;

/// After this time without a heartbeat response the worker stops its tasks, because the server may reassign its
/// commands.
const SILENCE_MAX: Duration = Duration::from_secs(13);

/// Sends heartbeats until `ended` is cancelled. Cancels `replaced` if another process replaces the worker's session.
pub(crate) async fn beat(
    shared: Arc<Shared>,
    ended: CancellationToken,
    replaced: CancellationToken,
) {
    let mut heard = Instant::now();
    loop {
        let pulse = Pulse {
            worker: shared.config.worker.clone(),
            holds: shared.holds(),
        };
        let answer = tokio::select! {
            answer = shared.transport.heartbeat(&pulse) => answer,
            () = tokio::time::sleep_until(heard + SILENCE_MAX) => {
                silence(&shared);
                heard = Instant::now();
                continue;
            }
            () = ended.cancelled() => return,
        };
        match answer {
            Ok(()) => heard = Instant::now(),
            Err(error @ wire::Error::SessionReplaced(_)) => {
                tracing::error!(%error, "worker session was replaced; stopping");
                shared.tell_all(Order::Gone);
                replaced.cancel();
                return;
            }
            Err(wire::Error::Fenced(_)) => shared.tell_all(Order::Gone),
            Err(error) => tracing::debug!(%error, "heartbeat failed; retrying"),
        }
        shared.secrets.sweep();
        tokio::select! {
            () = tokio::time::sleep(shared.config.heartbeat) => {}
            () = ended.cancelled() => return,
        }
        if heard.elapsed() >= SILENCE_MAX {
            silence(&shared);
            heard = Instant::now();
        }
    }
}

fn silence(shared: &Shared) {
    tracing::warn!(
        "no heartbeat response for {} s; stopping running tasks",
        SILENCE_MAX.as_secs()
    );
    shared.tell_all(Order::Abandon);
}

/// Receives notices by long polling until `ended` is cancelled.
pub(crate) async fn listen(shared: Arc<Shared>, ended: CancellationToken) {
    let mut backoff = Backoff::default();
    loop {
        let told = tokio::select! {
            told = shared.transport.listen(&shared.config.worker) => told,
            () = ended.cancelled() => return,
        };
        match told {
            Ok(told) => {
                backoff.reset();
                shared.hear(&told);
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
