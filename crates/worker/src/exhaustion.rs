//! Waiting while this machine has no descriptors, processes, memory or disk space for what is to be done: that is no
//! failure of a task, and uses up none of its attempts.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hand::{Hand, Trouble};
use crate::lease::Order;
use crate::patience::Backoff;

/// A call that cannot be begun for so long is given back, for a worker that has what it takes.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One thing that waits for the machine.
pub(crate) struct HostWait<'h> {
    hand: &'h Hand,
    backoff: Backoff,
    since: Option<Instant>,
}

impl<'h> HostWait<'h> {
    pub(crate) fn new(hand: &'h Hand) -> Self {
        Self {
            hand,
            backoff: Backoff::default(),
            since: None,
        }
    }

    /// Waits before a call is begun again; gives the command back where that has lasted too long.
    pub(crate) async fn for_a_call(&mut self, why: &str) -> Result<(), Trouble> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > WAIT_MAX {
            tracing::error!(command = %self.hand.lease.id, why, "a call cannot be begun here; giving its command back");
            self.hand.lease.tell(Order::Abandon);
            return Err(Trouble::Interrupted);
        }
        let paused = self.hand.lease.paused();
        self.again_unless(paused, why).await
    }

    /// Waits before a result is stored again. It is not given back, and a pause does not end the wait: the task would run
    /// a second time.
    pub(crate) async fn for_space(&mut self, why: &str) -> Result<(), Trouble> {
        let stopped = self.hand.lease.stopped();
        self.again_unless(stopped, why).await
    }

    async fn again_unless(&mut self, end: &CancellationToken, why: &str) -> Result<(), Trouble> {
        tracing::warn!(command = %self.hand.lease.id, why, "waiting for this machine");
        tokio::select! {
            () = self.backoff.wait() => Ok(()),
            () = end.cancelled() => Err(Trouble::Interrupted),
        }
    }
}
