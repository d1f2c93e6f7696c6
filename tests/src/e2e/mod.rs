//! The fault-injection test: real processes on a real Postgres, network and machine faults drawn from a seed, and
//! checks of the API and the database afterwards.
//!
//! [`storm`] runs the whole test; [`TestCluster`] is for tests of one invariant. Nothing here uses internals of the
//! engine: the checks use logs, API responses, and the effects that a service outside the system has recorded.

mod checks;
mod cluster;
#[cfg(test)]
mod controls;
mod effect_recorder;
mod effect_table;
mod load;
mod nemesis;
mod oracle;
mod playbooks;
mod process;
mod storm;

pub use cluster::{ClusterShape, TestCluster};
pub use effect_recorder::EffectRecorder;
pub use effect_table::EffectTable;
pub use load::{EffectUrls, StartedExecution, start_execution};
pub use oracle::read_log;
pub use playbooks::Recipe;
pub use storm::{StormPlan, StormReport, run_storm};
