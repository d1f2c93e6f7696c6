//! The database's clock, kept here between looks.
//!
//! The database reads its clock before its answer arrives, so counting from the arrival never runs ahead of it: what
//! is due by this clock is due by the database's.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use model::time::Time;

/// A step back of less than this is an error of measurement, and time stands still for it; a larger one is the
/// database's clock itself.
const NOISE_MAX: i64 = 1_000_000;

/// Time as the database tells it.
pub(super) struct Clock(Mutex<Reading>);

#[derive(Clone, Copy)]
struct Reading {
    shown: i64,
    arrived: Instant,
    /// The latest time given out.
    last: i64,
}

impl Clock {
    pub(super) fn new(shown: i64) -> Self {
        Self(Mutex::new(Reading {
            shown,
            arrived: instant(),
            last: shown,
        }))
    }

    /// The database showed this just now, after a question that took `round_trip`.
    pub(super) fn set(&self, shown: i64, round_trip: Duration) {
        let mut reading = self.0.lock().expect("reading a clock does not panic");
        let here = reading.at(instant());
        // A late answer says less than the count since an earlier, quicker one, unless the two are far apart.
        let behind = micros(round_trip);
        if shown > here || shown + behind < here {
            *reading = Reading {
                shown,
                arrived: instant(),
                last: if reading.last - shown < NOISE_MAX {
                    reading.last
                } else {
                    shown
                },
            };
        }
    }

    pub(super) fn now(&self) -> Time {
        let mut reading = self.0.lock().expect("reading a clock does not panic");
        let now = reading.at(instant()).max(reading.last);
        reading.last = now;
        Time(now)
    }
}

impl Reading {
    fn at(&self, instant: Instant) -> i64 {
        self.shown + micros(instant.saturating_duration_since(self.arrived))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// This machine's monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "counts the time between two looks at the database's clock"
)]
pub(super) fn instant() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_step_back_stands_still_and_a_large_one_is_followed() {
        let clock = Clock::new(10_000_000_000);
        let before = clock.now();
        clock.set(before.0 - 1_000, Duration::ZERO);
        assert!(clock.now() >= before);
        clock.set(before.0 - 3_600_000_000, Duration::ZERO);
        assert!(clock.now().0 < before.0 - 3_500_000_000);
    }

    #[test]
    fn a_step_forward_is_followed_at_once() {
        let clock = Clock::new(10_000_000_000);
        clock.set(20_000_000_000, Duration::from_secs(1));
        assert!(clock.now().0 >= 20_000_000_000);
    }
}
