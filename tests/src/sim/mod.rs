//! The simulator: random playbooks on several servers and workers, with faults at random times, all from one seed.
//!
//! After every action the checkers read what was committed; at the end every execution must have ended.

mod bug;
pub(crate) mod checks;
pub(crate) mod log_checker;
mod playbooks;
pub(crate) mod random;
mod seeded_answers;
mod simulation;

pub use bug::Bug;
pub use random::SeededRandom;
pub use simulation::{SimReport, Violation, simulate};
