//! The store as the schema `noetl` of a Postgres database that several servers share.
//!
//! A batch of commits is one statement, and so one round trip and one flush. Commits, leases and control requests have
//! their own connections, which list queries cannot use. Leases, timers and liveness use `Clock`, which starts with
//! the database's time.

mod access;
mod append;
mod append_one;
mod batch;
mod clock;
mod iteration_reads;
mod iterations;
mod json_params;
mod migrate;
mod monitoring;
mod notifications;
mod options;
mod pool;
mod pooler;
mod queries;
mod query_error;
mod rebuild;
mod registration;
mod rows;
mod sealed;
mod store;
mod waits;
mod writes;

pub use options::PostgresOptions;
pub use store::PostgresStore;
