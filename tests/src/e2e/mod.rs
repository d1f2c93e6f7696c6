//! The fault-injection test: real processes on a real Postgres, network and machine faults drawn from a seed, and
//! checks of the API and the database afterwards.
//!
//! [`storm`] runs the whole test; [`Cluster`] is for tests of one invariant. Nothing here uses internals of the engine:
//! the checks use logs, API responses, and the effects that a service outside the system has seen.

mod checks;
mod cluster;
#[cfg(test)]
mod controls;
mod load;
mod nemesis;
mod oracle;
mod playbooks;
mod process;
mod storm;
mod tally;
mod witness;

pub use cluster::{Cluster, Shape};
pub use load::{Begun, Seen, begin};
pub use oracle::read_log;
pub use playbooks::Recipe;
pub use storm::{Plan, Report, storm};
pub use tally::Tally;
pub use witness::Witness;
