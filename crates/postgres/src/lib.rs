//! Connections to Postgres: the target and its TLS settings, connections that are configured alike, and their pool.
//!
//! Used by the store, the stored results and the `postgres` tool. This crate knows no table and no error of its users:
//! they convert [`QueryError`], [`ConnectError`] and [`TargetError`] to their own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod connector;
mod pool;
mod query_error;
mod session;
mod target;
mod tls;

pub use connector::{ConnectError, Connector, RESPONSE_MAX, TlsConnection, limit_response};
pub use pool::{ConnectionPool, PoolOptions, PooledSession, RetrySafety};
pub use query_error::{QueryError, RETRIES_DURATION_MAX, RETRY_WAITS};
pub use session::{PgSession, PlanMode, SqlQuery, SqlValues, TypedValues, durable_settings};
pub use target::{ConnectTarget, PostgresUrl, TargetError, TargetParts, TlsTrust};
pub use tls::SystemRoots;
