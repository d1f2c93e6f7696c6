//! Garbage collection of bodies: deletes those that no live execution and no unexpired scope refers to.
//!
//! Input: the logs of all executions and the body store. `live_references` determines which bodies a log refers
//! to; `gc_pass` reads all logs, newest first, and deletes the other bodies. If any log cannot be read, nothing is
//! deleted.

mod gc_loop;
mod gc_pass;
mod live_references;

pub(crate) use gc_loop::run_gc;
pub use gc_pass::{GcOptions, GcStats, collect_garbage};
