//! Delays reports of ended iterations briefly, so that one report covers many.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::lease::{Gone, Lease};

/// A report is sent when this many iterations have ended.
const HELD_MAX: u32 = 50;
/// Maximum delay of an ended iteration.
const HOLD: Duration = Duration::from_millis(20);

/// Ended iterations of one command that are not reported yet.
pub(crate) struct Hold {
    lease: Arc<Lease>,
    held: u32,
    since: Instant,
    /// Report in flight. Iterations continue while it is sent.
    flight: Option<JoinHandle<Result<(), Gone>>>,
}

impl Hold {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self {
            lease,
            held: 0,
            since: Instant::now(),
            flight: None,
        }
    }

    /// Counts an ended iteration.
    pub(crate) fn note(&mut self) {
        if self.held == 0 {
            self.since = Instant::now();
        }
        self.held += 1;
    }

    /// Counts an ended iteration and sends a report if one is due.
    pub(crate) async fn add(&mut self) {
        self.note();
        if self.is_full() || self.since.elapsed() >= HOLD {
            self.landed().await;
            self.launch();
        }
    }

    /// Whether no iteration may start before a report is sent.
    pub(crate) fn is_full(&self) -> bool {
        self.held >= HELD_MAX
    }

    /// Completes when a report is due and none is in flight; never, if no iteration has ended. Cancel safe.
    pub(crate) async fn due(&mut self) {
        if self.held == 0 {
            std::future::pending::<()>().await;
        }
        if !self.is_full() {
            tokio::time::sleep_until(self.since + HOLD).await;
        }
        self.landed().await;
    }

    /// Starts to send a report in the background.
    pub(crate) fn launch(&mut self) {
        self.held = 0;
        let lease = self.lease.clone();
        self.flight = Some(tokio::spawn(async move { lease.flush().await }));
    }

    /// Waits for the report in flight: only one is sent at a time.
    async fn landed(&mut self) {
        if let Some(flight) = &mut self.flight {
            // A lost lease is visible in the lease state.
            let _ = flight.await;
            self.flight = None;
        }
    }
}
