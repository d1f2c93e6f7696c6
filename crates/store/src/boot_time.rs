//! The machine's monotonic clock, which cannot be set.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, including time spent suspended.
pub(crate) fn time_since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
