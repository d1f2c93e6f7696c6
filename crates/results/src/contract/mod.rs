//! Contract tests that every body store and every task log store must pass, as two suites.

mod bodies;
mod logs;

pub use bodies::*;
pub use logs::*;
