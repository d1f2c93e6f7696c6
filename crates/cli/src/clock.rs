//! Wall clock for display only ("2m ago", duration of a check); runs never use it.

use model::time::Time;

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "this module reads the clock")]
pub(crate) fn now() -> Time {
    Time(jiff::Timestamp::now().as_microsecond())
}
