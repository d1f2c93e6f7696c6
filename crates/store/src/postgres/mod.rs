//! The store as the schema `noetl` of a Postgres database that several servers share.
//!
//! A batch of commits is one statement, and so one round trip and one flush. Commits, leases and control requests have
//! their own connections, which list queries cannot use. Leases, timers and liveness use `Clock`, which starts with
//! the database's time.

mod access;
mod append;
mod batch;
mod change;
mod clock;
mod connections;
mod failure;
mod handle;
mod iterations;
mod life;
mod migrate;
mod one;
mod options;
mod pool;
mod pooler;
mod rare;
mod read;
mod rebuild;
mod rows;
mod safe;
mod side;
mod tls;

pub use connections::PostgresConnections;
pub use handle::Postgres;
pub use options::{PostgresOptions, PostgresUrl};
