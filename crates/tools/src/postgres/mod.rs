//! `postgres`: statements against a database, with values bound by the server and rows as JSON.
//!
//! Enters: a call with its command, `params` and `auth`. Leaves: rows and counts for each statement; what is too large
//! to be held passes into the store of bodies. With `effect: transactional` a marker commits with the statements.

mod decode;
mod effect;
mod failure;
mod guard;
mod param;
mod pool;
mod rows;
mod run;
mod session;
mod target;
mod tls;
mod tool;

pub(crate) use failure::told;
pub(crate) use guard::{STORE, STORE_TABLES};
pub(crate) use pool::{Pools, Stopper};
pub(crate) use target::Target;
pub(crate) use tool::Postgres;
pub use tool::PostgresConfig;
