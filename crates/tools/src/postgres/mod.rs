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
mod tool;

pub use failure::task_error;
pub use guard::{COUNT_STORE_TABLES, STORE_TABLES};
pub use pool::{PostgresPools, QueryCanceller};
pub use target::target_from_auth;
pub use tool::PostgresConfig;
pub(crate) use tool::PostgresTool;
