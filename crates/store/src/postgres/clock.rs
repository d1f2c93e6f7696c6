//! The clock of this process: it starts with the database's time and then counts with this machine's monotonic clock.
//!
//! Every heartbeat reads the database's clock. A small difference is a correction and is applied at once. A large one
//! is a jump, which timers and leases do not follow.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use model::steady_time::SteadyTime;
use model::time::Time;

use crate::boot_time::time_since_boot;

/// If another live server is ahead by more than this, this process was suspended for that time.
const BEHIND_MAX: Duration = Duration::from_millis(250);

/// The time of this process.
pub(super) struct DatabaseClock(Mutex<ClockState>);

struct ClockState {
    steady: SteadyTime,
    /// The latest time that was returned; no earlier time is returned after it.
    last: Time,
}

impl DatabaseClock {
    /// Creates a clock that shows this time now.
    pub(super) fn new(time: Time) -> Self {
        Self(Mutex::new(ClockState::new(time, time_since_boot())))
    }

    /// Corrects the clock with the database's time, read by a statement that took `round_trip`.
    pub(super) fn correct(&self, server_time: Time, round_trip: Duration) {
        self.lock_state().correct(server_time, round_trip, time_since_boot());
    }

    /// Moves the clock forward to the time of another live server, if it is far ahead.
    pub(super) fn catch_up(&self, other: Time) {
        self.lock_state().catch_up(other, time_since_boot());
    }

    pub(super) fn now(&self) -> Time {
        self.lock_state().now(time_since_boot())
    }

    fn lock_state(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().expect("reading a clock does not panic")
    }
}

impl ClockState {
    fn new(time: Time, since_boot: Duration) -> Self {
        Self {
            steady: SteadyTime::new(time, since_boot),
            last: time,
        }
    }

    fn now(&mut self, since_boot: Duration) -> Time {
        self.last = self.steady.time_at(since_boot).max(self.last);
        self.last
    }

    /// The database read its clock at some moment of the round trip. A local time within that interval is unchanged.
    fn correct(&mut self, server_time: Time, round_trip: Duration, since_boot: Duration) {
        let local_time = self.steady.time_at(since_boot);
        let latest = server_time.after(round_trip);
        self.steady
            .advance_to(local_time.clamp(server_time, latest), since_boot);
    }

    fn catch_up(&mut self, other: Time, since_boot: Duration) {
        if other > self.steady.time_at(since_boot).after(BEHIND_MAX) {
            self.steady = SteadyTime::new(other, since_boot);
        }
    }
}

/// This machine's monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long the database takes to respond"
)]
pub(super) fn monotonic_now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_800_000_000_000_000);
    const HOUR: i64 = 3_600_000_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Simulates heartbeats every second, while the database's clock is off by `off` microseconds.
    fn send_heartbeats(clock: &mut ClockState, heartbeats: std::ops::RangeInclusive<u64>, off: i64) {
        for second in heartbeats {
            let server_time = Time(START.after(seconds(second)).0 + off);
            clock.correct(server_time, Duration::from_millis(1), seconds(second));
        }
    }

    #[test]
    fn a_jump_of_the_database_hardly_changes_the_count() {
        for jump in [HOUR, -HOUR] {
            let mut clock = ClockState::new(START, Duration::ZERO);
            send_heartbeats(&mut clock, 1..=2, 0);
            send_heartbeats(&mut clock, 3..=10, jump);
            let off = clock.now(seconds(10)).0 - START.after(seconds(10)).0;
            assert!(off.abs() <= 80_000, "{off} µs off after a jump of {jump}");
        }
    }

    #[test]
    fn a_slow_response_changes_nothing() {
        let mut clock = ClockState::new(START, Duration::ZERO);
        clock.correct(START, seconds(1), seconds(1));
        assert_eq!(clock.now(seconds(1)), START.after(seconds(1)));
    }

    #[test]
    fn a_small_backward_step_of_the_clock_repeats_the_time() {
        let mut clock = ClockState::new(START, Duration::ZERO);
        let before = clock.now(seconds(1));
        clock.correct(Time(before.0 - 100_000), Duration::ZERO, seconds(1));
        assert_eq!(clock.now(seconds(1)), before);
        let later = seconds(2);
        assert_eq!(clock.now(later).0, START.after(later).0 - 100_000);
    }

    #[test]
    fn a_process_that_stood_still_catches_up_with_the_others() {
        let mut clock = ClockState::new(START, Duration::ZERO);
        clock.catch_up(START.after(seconds(60)), seconds(1));
        assert_eq!(clock.now(seconds(2)), START.after(seconds(61)));
        clock.catch_up(START, seconds(2));
        assert_eq!(clock.now(seconds(2)), START.after(seconds(61)));
    }
}
