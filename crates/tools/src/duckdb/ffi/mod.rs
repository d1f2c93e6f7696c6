//! `DuckDB`'s C interface, found when it is first needed: a room with unsafe code, behind types that are safe.
//!
//! Enters: the path of a library, SQL text, values. Leaves: rows as JSON values, and what the library says went wrong.
//! Every handle is owned by one value and given back when that value is dropped.

mod appender;
mod connection;
mod engine;
mod rows;
mod statement;
mod symbols;
mod types;
mod view;

pub(crate) use appender::Appender;
pub(crate) use connection::{Connection, Database};
pub(crate) use engine::Engine;
pub(crate) use rows::{Answer, Rows};
