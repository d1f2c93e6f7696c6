//! The data tools against the real thing: DuckDB's library, buckets, databases.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod call_end;
mod duckdb;
mod fixture;
mod injection;
mod large;
mod memory;
mod objects;
mod transfer;
