//! Holding back: ended iterations wait a little, so that one report speaks for many.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::lease::{Gone, Lease};

/// So many ended iterations are reported at once.
const HELD_MAX: u32 = 50;
/// An ended iteration waits no longer than this for others.
const HOLD: Duration = Duration::from_millis(20);

/// What is held back of one command.
pub(crate) struct Hold {
    lease: Arc<Lease>,
    held: u32,
    since: Instant,
    /// The report on its way. Work goes on beside it.
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

    /// One more iteration has ended.
    pub(crate) fn note(&mut self) {
        if self.held == 0 {
            self.since = Instant::now();
        }
        self.held += 1;
    }

    /// One more iteration has ended; what was held long enough is sent.
    pub(crate) async fn add(&mut self) {
        self.note();
        if self.is_full() || self.since.elapsed() >= HOLD {
            self.landed().await;
            self.launch();
        }
    }

    /// Whether nothing more should begin before a report is sent.
    pub(crate) fn is_full(&self) -> bool {
        self.held >= HELD_MAX
    }

    /// Returns when what is held must be sent and can be; never, if nothing is held. May be dropped and asked again.
    pub(crate) async fn due(&mut self) {
        if self.held == 0 {
            std::future::pending::<()>().await;
        }
        if !self.is_full() {
            tokio::time::sleep_until(self.since + HOLD).await;
        }
        self.landed().await;
    }

    /// Sends what is held, beside whatever comes next.
    pub(crate) fn launch(&mut self) {
        self.held = 0;
        let lease = self.lease.clone();
        self.flight = Some(tokio::spawn(async move { lease.flush().await }));
    }

    /// Only one report is on its way: more wait for it.
    async fn landed(&mut self) {
        if let Some(flight) = &mut self.flight {
            // A lost lease shows in the lease itself, where everyone looks.
            let _ = flight.await;
            self.flight = None;
        }
    }
}
