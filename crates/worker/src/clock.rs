//! The clock: what time it is, and waiting for a time. Tests put their own in its place.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::steady::SteadyTime;
use model::time::Time;
use rustix::time::{ClockId, clock_gettime};

/// Tells the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// Waits until it is `due`, never shorter.
    async fn sleep_until(&self, due: Time);
}

/// The clock of the machine as it was when the process began, and from then on what a clock counts that nobody sets: a
/// wait is as long as it should be, whatever happens to the wall clock meanwhile.
#[derive(Debug)]
pub struct SystemClock(Mutex<SteadyTime>);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Mutex::new(SteadyTime::new(wall(), counted())))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everyone else is handed"
)]
fn wall() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Time since the machine started, with the time it was suspended.
fn counted() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        let mut steady = self.0.lock().expect("telling the time does not panic");
        steady.at(wall(), counted())
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
