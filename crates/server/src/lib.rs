//! The control plane: receives inputs, calls the engine to decide, commits the events, and assigns commands to
//! workers.
//!
//! Inputs: submissions, reports and control requests. Outputs: committed events and claimed commands. It never runs
//! user tasks.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
mod collect;
mod control;
mod drive;
mod error;
mod inbox;
mod ingest;
mod keychain;
mod loading;
mod metrics;
mod peers;
mod playbooks;
mod publish;
mod reading;
mod rerun;
mod results;
mod server;
mod sessions;
mod snapshot;
mod submit;
mod sweep;
mod tokens;
mod transport;

pub use collect::{Collected, Collection, collect};
pub use control::{Control, ControlError};
pub use drive::{Assignments, Published};
pub use error::{Error, FREE_SPACE};
pub use keychain::{
    Fetch, FetchError, FetchRequest, Fetched, KeychainConfig, KeychainError, MasterKey, MasterKeys,
    Rotated, VaultConfig,
};
pub use loading::SNAPSHOT_VERSION;
pub use reading::{Found, Listed, LoopOutline, Reader, ResultAddress, ResultPlace, RunOutline};
pub use rerun::Rerun;
pub use results::RunResult;
pub(crate) use server::Shared;
pub use server::{Config, Server};
pub use submit::{RunRequest, Submission, SubmitError};
pub use tokens::{Actor, TokenError};
