//! Staying in touch: the worker says that it is alive, and hears what it is told between reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::Pulse;

use crate::lease::Order;
use crate::patience::Backoff;
use crate::worker::Shared;

/// Without a heartbeat for this long the session may end any moment and others take its work, so its tools are stopped.
const SILENCE_MAX: Duration = Duration::from_secs(13);

/// Says that the worker is alive, until `ended`. Cancels `replaced` if another process works under the worker's name.
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
                tracing::error!(%error, "stopped: its session was replaced");
                shared.tell_all(Order::Gone);
                replaced.cancel();
                return;
            }
            Err(wire::Error::Fenced(_)) => shared.tell_all(Order::Gone),
            Err(error) => tracing::debug!(%error, "a heartbeat was not taken"),
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
    tracing::warn!("the server has not answered for long; running tasks are stopped");
    shared.tell_all(Order::Abandon);
}

/// Hears what the worker is told, until `ended`.
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
                tracing::debug!(%error, "the worker cannot hear the server");
                tokio::select! {
                    () = backoff.wait() => {}
                    () = ended.cancelled() => return,
                }
            }
        }
    }
}
