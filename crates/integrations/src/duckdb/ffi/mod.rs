//! Bindings to `DuckDB`'s C API, loaded on first use. This module contains unsafe code behind safe types.
//!
//! Input: the path of a library, SQL text, values. Output: rows as JSON values, and errors of the library. Every handle
//! is owned by one value, which releases it on drop.

mod appender;
mod connection;
mod engine;
mod rows;
mod statement;
mod symbols;
mod types;
mod view;

pub(crate) use appender::Appender;
pub(crate) use connection::{DuckdbConnection, DuckdbDatabase};
pub(crate) use engine::DuckdbLibrary;
pub(crate) use rows::{AnswerKind, DuckdbRows};
