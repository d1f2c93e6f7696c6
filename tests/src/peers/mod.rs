//! The programs a distributed store talks to, started for tests: Postgres, NATS, buckets, and a network that fails on demand.
//!
//! Each peer is watched over by a small shell that holds a pipe from the test: however the test ends, the pipe closes,
//! and the shell stops the peer and removes its files.

mod duckdb;
mod gcs;
mod mcp;
mod nats;
mod postgres;
pub(crate) mod program;
mod proxy;
mod s3;
mod web;

pub use duckdb::duckdb;
pub use gcs::Gcs;
pub use mcp::{Answers, Mcp};
pub use nats::Nats;
pub use postgres::{Database, Postgres};
pub use proxy::Proxy;
pub use s3::S3;
pub use web::ask;
