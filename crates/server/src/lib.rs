//! The control plane: receives inputs, calls the engine to decide, commits the events, and assigns commands to
//! workers.
//!
//! Inputs: submissions, reports and control requests. Outputs: committed events and claimed commands. It never runs
//! user tasks.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access_tokens;
pub mod api;
mod body_gc;
mod control;
mod driver;
mod error;
mod execution_graph;
mod failure_groups;
mod inbox;
mod ingest;
mod keychain;
mod loading;
mod metrics;
mod oidc;
mod peers;
mod playbooks;
mod publish;
mod rerun;
mod result_reader;
mod results;
mod server;
mod sessions;
mod snapshot;
mod submit;
mod sweep;
mod tamper;
mod transport;

pub use access_tokens::{AccessTokenError, Actor};
pub use body_gc::{GcOptions, GcStats, collect_garbage};
pub use control::{ControlError, control_priority};
pub use driver::{Assignments, CommitNotice};
pub use error::{Error, FREE_SPACE_REMEDY};
pub use keychain::{
    FetchError, FetchRequest, FetchResponse, KeychainConfig, KeychainError, MasterKey, MasterKeys, SecretFetcher,
    VaultConfig,
};
pub use loading::SNAPSHOT_VERSION;
pub use oidc::{ClientAuth, ClientSecret, OidcConfig, OidcConfigError, SESSION_MAX, SingleSignOn};
pub use result_reader::{
    ExecutionOutline, LocatedResult, LoopOutline, ReferencePage, ResultAddress, ResultReader, ResultSelector,
};
pub use results::ExecutionResult;
pub(crate) use server::ServerShared;
pub use server::{Config, Server};
pub use submit::{ExecutionOptions, SubmitError, SubmitRequest};
pub use tamper::DriverBug;
#[cfg(feature = "simulation")]
pub use tamper::DriverTamper;
