//! Virtual time: all components use the runtime's paused clock, which does not advance during a write.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::time::Time;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time at which every case starts: the first second of 2026.
const EPOCH: Time = Time(1_767_225_600_000_000);

/// The clock of one case.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    started_at: Instant,
}

impl VirtualClock {
    /// A clock that starts now; the runtime's time must be paused.
    pub fn start() -> Self {
        Self {
            started_at: Instant::now(),
        }
    }

    /// The clock as a function, for a store.
    pub fn for_store(self) -> store::ClockFn {
        Arc::new(move || self.time())
    }

    /// The time now.
    pub fn time(self) -> Time {
        EPOCH.after(self.started_at.elapsed())
    }

    /// Elapsed time of the case.
    pub fn elapsed(self) -> Duration {
        self.started_at.elapsed()
    }
}

#[async_trait]
impl worker::Clock for VirtualClock {
    fn now(&self) -> Time {
        self.time()
    }

    async fn sleep_until(&self, due: Time) {
        loop {
            let left = due.since(self.time());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// Waits for work of another thread while the clock does not advance: paused time advances only when no blocking task
/// runs.
pub async fn run_with_time_stopped<T>(work: impl Future<Output = T>) -> T {
    let (done, done_signal) = oneshot::channel::<()>();
    let blocking_task = tokio::task::spawn_blocking(move || done_signal.blocking_recv());
    let value = work.await;
    drop(done);
    // The wait ends because its sender was dropped; that is expected.
    let _ = blocking_task.await;
    value
}
