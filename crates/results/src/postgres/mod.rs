//! What several servers share in the store's database: bodies in pieces, and task logs.
//!
//! Each statement is whole in itself and harmless the second time, so a lost connection is answered by another try.

mod bodies;
mod draft;
mod head;
mod logs;
mod pool;

pub use bodies::Postgres;
pub use logs::PostgresLogs;
pub use pool::{Connect, ConnectError};

/// A connection to the database.
pub use tokio_postgres::Client as PostgresClient;
