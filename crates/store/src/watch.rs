//! Waiting for changes of a store, by whoever may stop waiting at any moment and begin again.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Store;

/// The store is looked at so often even if nobody tells of a change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits for changes. When the next look is due is kept here and not in the future, so that a wait that is given up and
/// begun again does not put the look off: nothing depends on one notification.
#[derive(Debug)]
pub struct ChangeWatch {
    next_look: Instant,
}

impl Default for ChangeWatch {
    fn default() -> Self {
        Self {
            next_look: Instant::now() + LOOK_EVERY,
        }
    }
}

impl ChangeWatch {
    /// Returns when another process has changed the store, or when it is time to look. May be dropped and asked again.
    pub async fn changed(&mut self, store: &dyn Store) {
        tokio::select! {
            () = store.changed() => {}
            () = sleep_until(self.next_look) => {}
        }
        self.next_look = Instant::now() + LOOK_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::time::Time;
    use tokio::time::timeout;

    use super::*;
    use crate::Memory;

    /// A store in memory tells of changes by others alone, and there are none.
    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_again_and_again_comes_to_its_end() {
        let store = Memory::new(Arc::new(|| Time(1_800_000_000_000_000)));
        let mut watch = ChangeWatch::default();
        let began = Instant::now();
        let redraw = Duration::from_millis(100);
        while timeout(redraw, watch.changed(&store)).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(2), "it never looks");
        }
    }
}
