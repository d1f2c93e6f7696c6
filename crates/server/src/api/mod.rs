//! The HTTP API: one file per subject, errors made HTTP in one place, every route behind a typed permission.
//!
//! The API document is generated from the handlers, and a test walks it to prove that each route needs what it says.

mod access;
mod bodies;
mod catalog;
mod commands;
mod control;
mod error;
mod events;
mod executions;
mod extract;
mod guard;
mod listen;
mod logs;
mod range;
mod references;
mod replay;
mod router;
mod state;
mod stream;
mod system;
mod tokens;
mod workers;

pub(crate) use axum::Json;

/// What a handler answers.
pub(crate) type Answer<T> = Result<Json<T>, error::ApiError>;

pub use access::{Access, AdminToken};
pub use listen::{ListenError, Listening, Tls};
pub use state::ApiConfig;
