//! Shutdown on signals: the first signal starts a graceful shutdown, the second exits at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli_error::Exit;

/// Returns a token that the first SIGINT or SIGTERM cancels; the second exits the process at once.
pub(crate) fn cancel_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        for is_second in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_second {
                std::process::exit(i32::from(Exit::Interrupted.number()));
            }
            token.cancel();
        }
    });
    stop
}
