//! Waits while this machine is out of descriptors, processes, memory or disk space. Such a wait is not a task failure
//! and does not use up attempts.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hand::{Hand, Trouble};
use crate::lease::Order;
use crate::patience::Backoff;

/// After this time the command of a call that cannot start is released, so that another worker can run it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Wait for resources of this machine, for one operation.
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

    /// Waits before a call is started again; releases the command if the wait exceeds `WAIT_MAX`.
    pub(crate) async fn for_a_call(&mut self, why: &str) -> Result<(), Trouble> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > WAIT_MAX {
            tracing::error!(command = %self.hand.lease.id, why, "cannot start call on this machine; releasing command");
            self.hand.lease.tell(Order::Abandon);
            return Err(Trouble::Interrupted);
        }
        let paused = self.hand.lease.paused();
        self.again_unless(paused, why).await
    }

    /// Waits before a result is stored again. The command is not released, and a yield does not end the wait: the task
    /// would run a second time.
    pub(crate) async fn for_space(&mut self, why: &str) -> Result<(), Trouble> {
        let stopped = self.hand.lease.stopped();
        self.again_unless(stopped, why).await
    }

    async fn again_unless(&mut self, end: &CancellationToken, why: &str) -> Result<(), Trouble> {
        tracing::warn!(command = %self.hand.lease.id, why, "out of host resources; retrying");
        tokio::select! {
            () = self.backoff.wait() => Ok(()),
            () = end.cancelled() => Err(Trouble::Interrupted),
        }
    }
}
