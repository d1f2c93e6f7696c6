//! Bodies and task logs in the store's database, shared by several servers.
//!
//! Each statement is atomic and idempotent, so a lost connection is handled by retrying.

mod bodies;
mod layout;
mod logs;
mod pool;
mod upload;

pub use bodies::PostgresBodyStore;
pub use logs::PostgresLogs;
