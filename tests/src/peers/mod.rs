//! External services for tests: Postgres, NATS, object stores, and a network proxy that fails on demand.
//!
//! A small shell watches each service and reads a pipe from the test. When the test ends or crashes, the pipe
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
pub use gcs::FakeGcs;
pub use mcp::{McpResponseMode, McpServer};
pub use nats::NatsServer;
pub use postgres::{PostgresServer, TestDatabase};
pub use proxy::FaultProxy;
pub use s3::S3Server;
pub use web::request;
