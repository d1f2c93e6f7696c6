//! What every store of bodies and every store of task logs promises, as two suites.

mod bodies;
mod logs;

pub use bodies::*;
pub use logs::*;
