//! `transfer`: rows from one place to another, in chunks that follow one another, never all in memory.
//!
//! Enters: a source and a target, each a kind with its own keys. Leaves: how many rows went over. What is written to a
//! database or a file is there when all of it is, or not at all.

mod decode;
mod duckdb;
mod encode;
mod file;
mod flow;
mod plan;
mod postgres;
mod sqlite;
mod tool;
mod web;

pub(crate) use tool::Transfer;
