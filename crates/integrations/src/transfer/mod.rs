//! The `transfer` tool: copies rows from a source to a target in chunks, without loading all of them.
//!
//! Input: a source and a target, each with a kind and its keys. Output: the number of rows. A transfer to a database or
//! a file is atomic.

mod decode;
mod duckdb;
mod encode;
mod file;
mod flow;
mod options;
mod postgres;
mod sqlite;
mod tool;
mod web;

pub(crate) use tool::TransferTool;
