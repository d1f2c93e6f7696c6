//! Steady time: a clock for a process that does not jump with the wall clock.
//!
//! Input: readings of the wall clock and of a monotonic clock. Output: times that advance with the monotonic clock.
//! This module reads no clock.

use std::time::Duration;

use crate::time::Time;

/// Differences up to this size are normal clock corrections and are applied at once.
const CORRECTION_MAX: Duration = Duration::from_millis(250);

/// Larger differences are jumps. Each reading corrects at most 1/100 of the time that has passed.
const SLEW_DIVISOR: u32 = 100;

/// Time that does not jump. A wait of a minute takes a minute, to within one percent, even if the wall clock is set an
/// hour forward or back meanwhile; afterwards the time slowly converges to the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct SteadyTime {
    time: Time,
    /// The monotonic reading at `time`.
    monotonic: Duration,
}

impl SteadyTime {
    /// Starts at the wall clock's time and this monotonic reading.
    pub fn new(wall: Time, monotonic: Duration) -> Self {
        Self { time: wall, monotonic }
    }

    /// Returns the time at this monotonic reading, without a correction by the wall clock.
    pub fn time_at(&self, monotonic: Duration) -> Time {
        self.time.after(monotonic.saturating_sub(self.monotonic))
    }

    /// Returns the time at these readings of the wall clock and the monotonic clock, and corrects the difference.
    pub fn advance_to(&mut self, wall: Time, monotonic: Duration) -> Time {
        let passed = monotonic.saturating_sub(self.monotonic);
        // Fractions of a microsecond count at the next reading.
        let passed = Duration::from_micros(u64::try_from(passed.as_micros()).unwrap_or(u64::MAX));
        let uncorrected = self.time.after(passed);
        let difference = wall.0.saturating_sub(uncorrected.0);
        let correction_max = micros(CORRECTION_MAX);
        let correction = if (-correction_max..=correction_max).contains(&difference) {
            difference
        } else {
            let slew_max = micros(passed / SLEW_DIVISOR);
            difference.clamp(-slew_max, slew_max)
        };
        self.time = Time(uncorrected.0.saturating_add(correction));
        self.monotonic += passed;
        self.time
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const START: Time = Time(1_767_225_600_000_000);

    /// Reads the clock every 100 ms for the time `long`, with the wall clock `off` microseconds off.
    fn pass_time(steady: &mut SteadyTime, from: Duration, long: Duration, off: i64) -> Time {
        let (mut monotonic, mut time) = (from, START);
        while monotonic < from + long {
            monotonic += Duration::from_millis(100);
            time = steady.advance_to(Time(START.after(monotonic).0 + off), monotonic);
        }
        time
    }

    #[test]
    fn a_wall_clock_that_jumps_an_hour_hardly_changes_a_wait() {
        for jump in [HOUR, -HOUR] {
            let mut steady = SteadyTime::new(START, Duration::ZERO);
            let two = Duration::from_secs(2);
            assert_eq!(pass_time(&mut steady, Duration::ZERO, two, 0), START.after(two));
            let after = pass_time(&mut steady, two, Duration::from_secs(6), jump);
            let off = after.0 - START.after(Duration::from_secs(8)).0;
            assert!(off.abs() <= 60_000, "{off} µs off after a jump of {jump} µs");
        }
    }

    #[test]
    fn the_time_converges_to_the_wall_clock() {
        for jump in [HOUR, -HOUR] {
            let mut steady = SteadyTime::new(START, Duration::ZERO);
            let long = Duration::from_secs(101 * 3_600);
            let after = pass_time(&mut steady, Duration::ZERO, long, jump);
            assert_eq!(after.0, START.after(long).0 + jump);
        }
    }

    #[test]
    fn a_small_correction_is_followed_at_once_and_time_never_runs_back_after_a_jump() {
        let mut steady = SteadyTime::new(START, Duration::ZERO);
        let second = Duration::from_secs(1);
        let corrected = Time(START.after(second).0 - 200_000);
        assert_eq!(steady.advance_to(corrected, second), corrected);
        let before = steady.advance_to(Time(0), second);
        assert!(steady.advance_to(Time(0), second * 2) > before);
    }
}
