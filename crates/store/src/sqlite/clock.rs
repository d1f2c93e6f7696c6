//! The default clock of SQLite stores.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use model::steady_time::SteadyTime;
use model::time::Time;

use crate::boot_time::time_since_boot;

/// The source of time.
pub type ClockFn = Arc<dyn Fn() -> Time + Send + Sync>;

/// A clock that starts with the wall clock and then counts with a monotonic clock, so that timers and leases of a live
/// process do not jump with the wall clock.
pub(super) fn steady_clock() -> ClockFn {
    let steady = Mutex::new(SteadyTime::new(wall_time(), time_since_boot()));
    Arc::new(move || {
        let mut steady = steady.lock().expect("reading the clock does not panic");
        steady.advance_to(wall_time(), time_since_boot())
    })
}

#[expect(clippy::disallowed_methods, reason = "this is the default clock of SQLite stores")]
fn wall_time() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Time::default().after(now.unwrap_or_default())
}
