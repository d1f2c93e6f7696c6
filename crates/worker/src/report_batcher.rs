//! Delays reports of ended iterations briefly, so that one report covers many.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::lease::{CommandLease, LeaseLost};

/// A report is sent when this many iterations have ended.
const BATCHED_ITERATIONS_MAX: u32 = 50;
/// Maximum delay of an ended iteration.
const BATCH_DELAY_MAX: Duration = Duration::from_millis(20);

/// Ended iterations of one command that are not reported yet.
pub(crate) struct ReportBatcher {
    lease: Arc<CommandLease>,
    pending_count: u32,
    pending_since: Instant,
    /// Report in flight. Iterations continue while it is sent.
    flush_task: Option<JoinHandle<Result<(), LeaseLost>>>,
}

impl ReportBatcher {
    pub(crate) fn new(lease: Arc<CommandLease>) -> Self {
        Self {
            lease,
            pending_count: 0,
            pending_since: Instant::now(),
            flush_task: None,
        }
    }

    /// Counts an ended iteration.
    pub(crate) fn count(&mut self) {
        if self.pending_count == 0 {
            self.pending_since = Instant::now();
        }
        self.pending_count += 1;
    }

    /// Counts an ended iteration and sends a report if one is due.
    pub(crate) async fn count_and_flush(&mut self) {
        self.count();
        if self.is_full() || self.pending_since.elapsed() >= BATCH_DELAY_MAX {
            self.wait_for_flush().await;
            self.start_flush();
        }
    }

    /// Whether no iteration may start before a report is sent.
    pub(crate) fn is_full(&self) -> bool {
        self.pending_count >= BATCHED_ITERATIONS_MAX
    }

    /// Completes when a report is due and none is in flight; never, if no iteration has ended. Cancel safe.
    pub(crate) async fn flush_due(&mut self) {
        if self.pending_count == 0 {
            std::future::pending::<()>().await;
        }
        if !self.is_full() {
            tokio::time::sleep_until(self.pending_since + BATCH_DELAY_MAX).await;
        }
        self.wait_for_flush().await;
    }

    /// Starts to send a report in the background.
    pub(crate) fn start_flush(&mut self) {
        self.pending_count = 0;
        let lease = self.lease.clone();
        self.flush_task = Some(tokio::spawn(async move { lease.flush().await }));
    }

    /// Waits for the report in flight: only one is sent at a time.
    async fn wait_for_flush(&mut self) {
        if let Some(flight) = &mut self.flush_task {
            // A lost lease is visible in the lease state.
            let _ = flight.await;
            self.flush_task = None;
        }
    }
}
