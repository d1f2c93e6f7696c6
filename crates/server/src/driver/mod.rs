//! The driver: decides all inputs of this process's executions in order, and commits the decisions.
//!
//! Inputs: requests from transports, sweeps and clients. A decision changes the state in memory at once, but nothing
//! is sent to others before its commit is durable. While a commit of an execution is being written, its later
//! decisions are collected for the next commit. If a commit fails, its inputs are queued again and the state is loaded
//! from the store.
//!
//! `DriverMachine` is a state machine without I/O: inputs go in, effects come out. The shell is one task that performs
//! the effects and returns their results to the machine.

mod build;
mod claim_table;
mod claims;
mod commit_stage;
mod commits;
mod decide;
mod effect;
mod handle;
mod hooks;
mod loaded_execution;
mod machine;
#[cfg(test)]
mod machine_tests;
mod pending_commit;
mod queued_input;
mod reload;
mod remote_commands;
mod shell;
mod write_batch;

pub use handle::{Assignments, CommitNotice};
pub(crate) use handle::{
    DriverHandle, DriverRequest, InputAttachments, InputError, PendingClaim, WorkerCapacity, driver_channel,
    input_priority,
};
pub(crate) use hooks::Hooks;
pub(crate) use shell::run;
