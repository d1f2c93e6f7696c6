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
mod decide;
mod handle;
mod loaded_execution;
mod pending_commit;
mod remote_commands;
mod write_batch;

pub(crate) use actor::run;
pub use handle::{Assignments, CommitNotice};
pub(crate) use handle::{
    DriverHandle, DriverRequest, InputAttachments, InputError, WorkerCapacity, driver_channel,
    input_priority,
};
