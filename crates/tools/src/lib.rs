//! The tools: one file per kind. A call goes in, one `Outcome` comes out.
//!
//! A call that fails is data, so no tool returns an `Err`: what went wrong is an `Outcome::Error` with a stable code.
//! Kinds that need the engine (`playbook`, `wait`, `workbook`) are not here.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::needless_pass_by_value,
        clippy::items_after_statements,
        clippy::large_stack_arrays
    )
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tools stand at the edge: deadlines and durations of calls are read off the clock"
)]
#![expect(
    clippy::result_large_err,
    reason = "the error is the outcome itself and is made once per failed call"
)]

mod artifact;
mod auth;
mod call;
mod capture;
mod certificates;
mod container;
#[cfg(test)]
mod corpus;
mod duckdb;
mod evaluation;
mod exhaustion;
mod external;
mod http;
mod isolation;
mod mcp;
mod nats;
mod network;
mod noop;
mod objects;
mod postgres;
mod process;
mod process_marker;
mod python;
mod registry;
mod regular_file;
mod rhai;
mod run_program;
mod scratch_files;
mod script;
mod shell;
mod sql;
mod sqlite;
#[cfg(test)]
mod testing;
mod transfer;
mod transform;
mod value_placement;

pub use self::postgres::PostgresConfig;
pub use call::{
    Call, CallSite, DeferredAction, DiscardingLogSink, LogSink, OutputMask, ReferenceResolver,
    ResultAccess, Stream, Timeout, Tool, ToolResult,
};
pub use capture::OMITTED_SUFFIX;
pub use evaluation::{EVALUATION_PROCESS_ARGUMENT, serve_evaluations};
pub use exhaustion::HOST_EXHAUSTED;
pub use external::{KeyType, KindManifest, ManifestError, ManifestKey, load_manifests};
pub use isolation::{SandboxLevel, SandboxSupport};
pub use network::{
    AllowedTarget, CertificateAuthorities, InvalidAllowedTarget, InvalidCertificates, NetworkConfig,
};
pub use process_marker::end_orphans;
pub use python::python_code;
pub use registry::{Config, DuckdbConfig, HttpLimits, PythonConfig, Registry};
pub use rhai::rhai_script;
pub use transform::jq_program;
