//! `duckdb`: SQL over files and memory by the machine's own `DuckDB` library, which is found when it is first needed.
//!
//! Enters: a command, its values, a database. Leaves: the rows of its last statement, streamed to the store of bodies
//! where they are many.

mod aliases;
#[cfg(test)]
mod corpus;
mod failure;
#[expect(
    unsafe_code,
    reason = "a C library is called; nothing else in the workspace is allowed to"
)]
mod ffi;
mod guard;
mod library;
mod pool;
mod run;
mod text;
mod tool;

pub(crate) use failure::{DuckdbError, task_error};
pub(crate) use ffi::{Appender, DuckdbConnection};
pub(crate) use guard::{StoreGuard, may_attach};
pub(crate) use library::LibraryLoader;
pub(crate) use pool::{DatabaseHandle, DatabasePool};
pub(crate) use tool::DuckdbTool;
