//! Tool kinds that need a client of their own: `container`, `duckdb`, `mcp`, `nats` and `transfer`.
//!
//! Each kind is behind a cargo feature with its name. A binary without a kind reports `TOOL_NOT_BUILT` for its tasks.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::needless_pass_by_value,
        clippy::items_after_statements,
        clippy::disallowed_methods
    )
)]
#![expect(
    clippy::result_large_err,
    reason = "the error is the outcome itself and is created once per failed call"
)]

mod config;
#[cfg(feature = "container")]
mod container;
#[cfg(feature = "duckdb")]
#[cfg_attr(
    not(feature = "transfer"),
    expect(
        dead_code,
        unused_imports,
        reason = "only `transfer` appends rows to a table and attaches databases"
    )
)]
mod duckdb;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "nats")]
mod nats;
mod registry;
#[cfg(feature = "transfer")]
mod transfer;

pub use config::{Config, DuckdbConfig};
pub use registry::{build_registry, is_built};
