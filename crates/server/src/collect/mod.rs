//! Garbage collection of bodies: deletes those that no live execution and no unexpired scope refers to.
//!
//! Input: the logs of all executions and the body store. `marks` determines which bodies a log refers to; `round`
//! reads all logs, newest first, and deletes the other bodies. If any log cannot be read, nothing is deleted.

mod marks;
mod round;
mod sweep;

pub use round::{Collected, Collection, collect};
pub(crate) use sweep::sweep;
