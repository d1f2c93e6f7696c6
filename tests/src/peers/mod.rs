//! External services for tests: Postgres, NATS, object stores, and a network proxy that fails on demand.
//!
//! A small shell watches each service and holds a pipe from the test. When the test ends or crashes, the pipe
//! closes, and the shell stops the service and removes its files.

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
