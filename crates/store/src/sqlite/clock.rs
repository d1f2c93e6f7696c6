//! The clock of stores that are handed no other.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::steady::SteadyTime;
use model::time::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::memory::Clock;

/// The machine's time when a process opens the store, and from then on what a clock counts that nobody sets: timers and
/// leases of a process that lives do not jump with the wall clock.
pub(super) fn steady() -> Clock {
    let steady = Mutex::new(SteadyTime::new(wall(), counted()));
    Arc::new(move || {
        let mut steady = steady.lock().expect("telling the time does not panic");
        steady.at(wall(), counted())
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

/// Time since the machine started, with the time it was suspended.
fn counted() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
