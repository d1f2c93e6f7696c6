//! The clock of stores that are handed no other.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use model::steady::SteadyTime;
use model::time::Time;

use crate::boot_time::time_since_boot;
use crate::memory::Clock;

/// The machine's time when a process opens the store, and from then on what a clock counts that nobody sets: timers and
/// leases of a process that lives do not jump with the wall clock.
pub(super) fn steady() -> Clock {
    let steady = Mutex::new(SteadyTime::new(wall(), time_since_boot()));
    Arc::new(move || {
        let mut steady = steady.lock().expect("telling the time does not panic");
        steady.at(wall(), time_since_boot())
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock of stores that are handed no other"
)]
fn wall() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Time::default().after(now.unwrap_or_default())
}
