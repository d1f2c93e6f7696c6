//! The clock: what time it is, and waiting for a time. Tests put their own in its place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::time::Time;

/// Tells the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// Waits until it is `due`, never shorter.
    async fn sleep_until(&self, due: Time);
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everyone else is handed"
    )]
    fn now(&self) -> Time {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, due: Time) {
        loop {
            let left = due.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}
