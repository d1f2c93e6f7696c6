//! The machine's clock that nobody sets.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, with the time it was suspended.
pub(crate) fn time_since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
