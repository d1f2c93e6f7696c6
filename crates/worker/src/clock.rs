//! The clock: returns the time and waits for a time. Tests replace it.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::steady_time::SteadyTime;
use model::time::Time;
use rustix::time::{ClockId, clock_gettime};

/// Returns the current time and sleeps until a given time.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Time;

    /// Sleeps until `due`, never shorter.
    async fn sleep_until(&self, due: Time);
}

/// The wall clock at process start plus the time counted by the boot clock. Nothing sets the boot clock, so changes of
/// the wall clock do not change the length of a wait.
#[derive(Debug)]
pub struct SystemClock(Mutex<SteadyTime>);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Mutex::new(SteadyTime::new(wall_time(), boot_time())))
    }
}

#[expect(clippy::disallowed_methods, reason = "all other code gets its time from this clock")]
fn wall_time() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Time since boot, including the time that the machine was suspended.
fn boot_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        let mut steady = self.0.lock().expect("reading the clock does not panic");
        steady.advance_to(wall_time(), boot_time())
    }

    async fn sleep_until(&self, due: Time) {
        loop {
            let remaining = due.since(self.now());
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
    }
}
