//! Waits while this machine is out of descriptors, processes, memory or disk space. Such a wait is not a task failure
//! and does not use up attempts.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::RetryBackoff;
use crate::command_context::{CommandContext, WorkError};
use crate::lease::LeaseState;

/// After this time the command of a call that cannot start is released, so that another worker can run it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Wait for resources of this machine, for one operation.
pub(crate) struct HostWait<'h> {
    context: &'h CommandContext,
    backoff: RetryBackoff,
    waiting_since: Option<Instant>,
}

impl<'h> HostWait<'h> {
    pub(crate) fn new(context: &'h CommandContext) -> Self {
        Self {
            context,
            backoff: RetryBackoff::default(),
            waiting_since: None,
        }
    }

    /// Waits before a call is started again; releases the command if the wait exceeds `WAIT_MAX`.
    pub(crate) async fn wait_for_call(&mut self, reason: &str) -> Result<(), WorkError> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() > WAIT_MAX {
            tracing::error!(command = %self.context.lease.id, reason, "cannot start call on this machine; releasing command");
            self.context.lease.restrict(LeaseState::Abandoned);
            return Err(WorkError::Interrupted);
        }
        let paused = self.context.lease.yield_token();
        self.wait_unless_cancelled(paused, reason).await
    }

    /// Waits before a result is stored again. The command is not released, and a yield does not end the wait: the task
    /// would run a second time.
    pub(crate) async fn wait_for_space(&mut self, reason: &str) -> Result<(), WorkError> {
        let stopped = self.context.lease.stop_token();
        self.wait_unless_cancelled(stopped, reason).await
    }

    async fn wait_unless_cancelled(&mut self, end: &CancellationToken, reason: &str) -> Result<(), WorkError> {
        tracing::warn!(command = %self.context.lease.id, reason, "out of host resources; retrying");
        tokio::select! {
            () = self.backoff.wait() => Ok(()),
            () = end.cancelled() => Err(WorkError::Interrupted),
        }
    }
}
