//! The `duckdb` tool: SQL over files and in-memory data with the machine's `DuckDB` library, which is loaded on first
//! use.
//!
//! Input: a command, its values, a database. Output: the rows of the last statement; many rows are streamed to the
//! result store.

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

pub(crate) use failure::DuckdbError;
pub(crate) use ffi::{Appender, DuckdbConnection};
pub(crate) use guard::{StoreGuard, may_attach};
pub(crate) use library::LibraryLoader;
pub(crate) use pool::{DatabaseHandle, DatabasePool};
pub(crate) use tool::DuckdbTool;
