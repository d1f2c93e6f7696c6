//! The simulator: random playbooks on several servers and workers, with faults at random times, all from one seed.
//!
//! After every action the checkers read what was committed; at the end every execution must have ended.

mod answers;
mod bug;
pub(crate) mod checks;
mod playbooks;
pub(crate) mod random;
mod run;
pub(crate) mod watch;

pub use bug::Bug;
pub use random::Random;
pub use run::{Report, Violation, simulate};
