//! The cluster under fire: real processes on a real Postgres, a network and machines that fail by a seed, and an oracle
//! over the API and the database when the storm is over.
//!
//! [`storm`] runs it all; [`Cluster`] is for tests of one promise. Nothing here knows how the engine works inside: it
//! asserts on logs, on what the API says, and on what a witness outside the system saw.

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
