//! The HTTP API: one file per subject, one place that converts errors to HTTP, and a typed permission for every route.
//!
//! The API document is generated from the handlers, and a test checks that each route requires the role it
//! declares.

pub(crate) mod access;
mod api_result;
mod bodies;
mod bulk;
mod catalog;
mod change_waiter;
mod client_files;
mod commands;
mod connection;
mod control;
mod credentials;
mod error;
mod event_pages;
mod events;
mod execution_lists;
mod executions;
mod extract;
mod guard;
mod inbox;
mod language;
mod leases;
mod listen;
mod logs;
mod loops;
mod older_workers;
mod operation_ids;
mod playbooks;
mod queue;
mod range;
mod references;
mod rendered_events;
mod replay;
mod router;
mod run_list_stream;
mod run_lists;
mod sessions;
mod shared_key;
mod sign_in;
mod single_sign_on;
mod sse;
mod state;
mod stream;
mod system;
mod system_status;
mod tokens;
mod web_session;
mod workers;

pub(crate) use api_result::ApiResult;
pub(crate) use axum::Json;
pub(crate) use rendered_events::RenderedEvents;

pub use access::{AccessMode, AdminToken};
pub use listen::{BoundListener, ListenError, ServerTls};
pub use state::{ApiConfig, SystemConfig};
