//! Waits for changes of a store; a wait can be cancelled at any time and repeated.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Store;

/// Interval at which callers check the store even without a notification.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits for changes. The time of the next check is stored here and not in the future, so that a wait that is
/// cancelled and repeated does not postpone the check.
#[derive(Debug)]
pub struct ChangeWatch {
    next_poll: Instant,
}

impl Default for ChangeWatch {
    fn default() -> Self {
        Self {
            next_poll: Instant::now() + POLL_INTERVAL,
        }
    }
}

impl ChangeWatch {
    /// Returns when another process has changed the store, or when it is time to check. Cancel-safe.
    pub async fn wait_for_change(&mut self, store: &dyn Store) {
        tokio::select! {
            () = store.wait_for_change() => {}
            () = sleep_until(self.next_poll) => {}
        }
        self.next_poll = Instant::now() + POLL_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::time::Time;
    use tokio::time::timeout;

    use super::*;
    use crate::MemoryStore;

    /// A store in memory only notifies of changes by other processes, and here there are none.
    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_cancelled_repeatedly_ends() {
        let store = MemoryStore::new(Arc::new(|| Time(1_800_000_000_000_000)));
        let mut watch = ChangeWatch::default();
        let began = Instant::now();
        let redraw = Duration::from_millis(100);
        while timeout(redraw, watch.wait_for_change(&store)).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(2), "the watch never returns");
        }
    }
}
