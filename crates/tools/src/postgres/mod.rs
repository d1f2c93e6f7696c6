//! The `postgres` tool: runs statements with bound values and returns rows as JSON.
//!
//! Input: a call with its command, `params` and `auth`. Output: rows and counts of each statement; large results are
//! streamed to the result store. With `effect: transactional`, a marker row commits with the statements.

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
