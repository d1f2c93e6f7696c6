//! Bodies and task logs in the store's database, shared by several servers.
//!
//! Each statement is atomic and idempotent, so a lost connection is handled by retrying.

mod bodies;
mod draft;
mod head;
mod logs;
mod pool;

pub use bodies::Postgres;
pub use logs::PostgresLogs;
pub use pool::{Connect, ConnectError};

/// Connection to the database.
pub use tokio_postgres::Client as PostgresClient;
