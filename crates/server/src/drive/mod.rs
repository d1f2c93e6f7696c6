//! The drive: one task that decides for every execution of this process, in order, and commits.
//!
//! Enters: orders from transports, sweeps and people. A decision advances the state in memory at once; nothing leaves
//! the process before its commit. While one commit of an execution is under way, later decisions of it gather into
//! the next. A commit that did not happen puts its inputs back in line on freshly loaded state.

mod actor;
mod build;
mod claims;
mod commits;
mod deciding;
mod fetch;
mod gathered;
mod handle;
mod slot;

pub(crate) use actor::run;
pub use handle::{Assignments, Published};
pub(crate) use handle::{Extras, Handle, Hands, Order, Posted, channel, priority_of};
