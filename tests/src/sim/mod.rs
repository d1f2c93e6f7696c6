//! The simulator: random playbooks on real servers and workers, with faults at random times, all from one seed.
//!
//! The checkers read every commit; at the end every execution must have ended.

mod bug;
pub(crate) mod checks;
mod cluster;
pub(crate) mod log_checker;
mod observer;
mod playbooks;
pub(crate) mod random;
mod seeded_outcomes;
mod sim_transport;
mod simulation;

pub use bug::Bug;
pub use random::SeededRandom;
pub use simulation::{SimReport, Violation, simulate};
