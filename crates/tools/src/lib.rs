//! Tools: one module per kind. A tool gets a call and returns one `Outcome`.
//!
//! A failed call is data: an `Outcome::Error` with a stable code. Kinds that need the engine (`playbook`, `wait`,
//! `workbook`) are not in this crate.

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
    reason = "tools perform I/O: deadlines and durations of calls need the clock"
)]
#![expect(
    clippy::result_large_err,
    reason = "the error is the outcome itself and is created once per failed call"
)]

mod artifact;
mod auth;
mod call;
mod capture;
mod certificates;
#[cfg(any(test, feature = "testing"))]
pub mod corpus;
mod declared_environment;
mod evaluation;
mod exhaustion;
mod external;
pub mod http;
mod isolation;
mod kind_not_built;
mod network;
mod noop;
pub mod objects;
pub mod postgres;
mod process;
mod process_marker;
mod program_setup;
mod python;
mod registry;
mod regular_file;
mod rhai;
mod run_program;
mod scratch_files;
mod script;
mod shared_resources;
mod shell;
pub mod sql;
pub mod sqlite;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transform;
mod value_placement;
mod value_text;

pub use artifact::{NatsAddress, NatsBuckets, bytes_to_value, unknown_action_error};
pub use auth::{auth_text, call_auth, invalid_auth_error, unresolved_auth_error};
pub use call::{
    Call, CallSite, DeferredAction, DiscardingLogSink, LogSink, OutputMask, ReferenceResolver, ResultAccess, Timeout,
    Tool, ToolResult, cancelled_error, run_within_limit, scratch_error, store_error, stored_outcome, timeout_error,
    wait_for_timeout,
};
pub use capture::{OMITTED_SUFFIX, OutputCapture, text_tail};
pub use declared_environment::declared_environment;
pub use evaluation::{EVALUATION_PROCESS_ARGUMENT, serve_evaluations};
pub use exhaustion::{
    HOST_EXHAUSTED, exhausted_error, find_connect_shortage, find_lasting_shortage, find_shortage_in, find_shortage_of,
};
pub use external::{KeyType, KindManifest, ManifestError, ManifestKey, load_manifests};
pub use isolation::{GATE_OPEN_LINE, ResourceLimits, SandboxLevel, SandboxRules, SandboxSupport};
pub use kind_not_built::KindNotBuilt;
pub use network::{AllowedTarget, CertificateAuthorities, InvalidAllowedTarget, InvalidCertificates, NetworkConfig};
pub use process::{KILL_GRACE, OutputPipe, ProcessGroup, ProgramSpec, StartError};
pub use process_marker::end_orphans;
pub use program_setup::ProgramSetup;
pub use python::python_code;
pub use registry::{Config, HttpLimits, PythonConfig, Registry};
pub use regular_file::{FileReadError, open_regular};
pub use rhai::rhai_script;
pub use run_program::{ProgramEnd, ProgramOutput, run_to_end};
pub use scratch_files::create_named_file;
pub use shared_resources::SharedResources;
pub use transform::jq_program;
pub use value_text::plain_text;
