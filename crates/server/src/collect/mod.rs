//! Collecting bodies: those that no living run and no unexpired scope refers to are removed.
//!
//! Enters: the log of every run, and the store of bodies. Leaves: fewer bodies. `marks` says what a log keeps alive, `round`
//! reads all of them, newest first, and removes what is left over. With anything unread nothing is removed.

mod marks;
mod round;
mod sweep;

pub use round::{Collected, Collection, collect};
pub(crate) use sweep::sweep;
