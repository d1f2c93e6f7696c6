//! The wall clock of the person at the terminal: for "2m ago" and for how long a check took, never for a run.

use model::time::Time;

/// The time now.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the room that reads the clock"
)]
pub(crate) fn now() -> Time {
    Time(jiff::Timestamp::now().as_microsecond())
}
