//! The control plane: receives inputs, calls the engine to decide, commits the events, and assigns commands to
//! workers.
//!
//! Inputs: submissions, reports and control requests. Outputs: committed events and claimed commands. It never runs
//! user tasks.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access_tokens;
pub mod api;
mod body_gc;
mod bulk;
mod control;
mod driver;
mod error;
mod event_search;
mod execution_graph;
mod failure_groups;
mod inbox;
mod ingest;
mod input_form;
mod keychain;
mod language_reference;
mod loading;
mod loop_cells;
mod metrics;
mod oidc;
mod outline_walk;
mod peers;
mod playbook_callers;
mod playbook_diff;
mod playbook_graph;
mod playbooks;
mod publish;
mod recent_runs;
mod rerun;
mod rerun_preview;
mod result_reader;
mod results;
mod server;
mod sessions;
mod snapshot;
mod state_check;
mod state_description;
mod state_json;
mod state_replay;
mod submit;
mod sweep;
mod tamper;
mod timeline;
mod transport;
mod work_queue;
mod worker_descriptions;

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
