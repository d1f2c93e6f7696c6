//! The driver: one task that decides all inputs of this process's executions in order, and commits the decisions.
//!
//! Inputs: requests from transports, sweeps and clients. A decision changes the state in memory at once, but nothing
//! is sent to others before its commit is durable. While a commit of an execution is being written, its later
//! decisions are collected for the next commit. If a commit fails, its inputs are queued again and the state is loaded
//! from the store.

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
