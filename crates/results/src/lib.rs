//! Result bodies: small results stay inline in the log, larger ones are stored and referenced by a `ResultRef`. Also
//! the output of tasks.
//!
//! [`LargeResult`] stores a value, a [`Keeper`] streams text that does not fit into memory; a [`Bodies`] implementation
//! stores bodies, and [`Stores`] combines all stores of a process. A reference is returned only after its body is
//! durable, and a body only after its hash was checked.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bodies;
mod cache;
mod compress;
mod config;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod draft;
mod error;
mod extract;
mod files;
mod hashing;
mod json;
mod keep;
mod keeper;
mod local;
mod logs;
mod nats;
mod objects;
mod postgres;
mod private;
mod secret;
mod space;
mod stage;
mod stores;
mod wish;
mod within;

pub use bodies::{Bodies, Old, Pieces, Reading, Source, Stored, value};
pub use config::{
    CacheConfig, CloudTier, GcsConfig, GcsIdentity, NatsConfig, S3Config, StoresConfig,
};
pub use error::{Error, why_missing};
pub use extract::{extract, preview, select};
pub use json::{Located, NotJson, Places, Scanner, plain};
pub use keep::{LargeResult, Place};
pub use keeper::{Keeper, MissingPaths};
pub use local::{Local, sha256};
pub use logs::{FileLogs, LOG_BYTES_MAX, LogAsk, LogPage, TaskLogs, read_logs};
pub use objects::{Bucket, BucketError, Found, Listed, Opened};
pub use postgres::{Connect, ConnectError, Postgres, PostgresClient, PostgresLogs};
pub use private::make_private_dir;
pub use secret::Secret;
pub use space::{SpaceWatch, SpoolFile};
pub use stores::{Home, Stores};
pub use wish::{Codec, Kind, Packing, Wish};
pub use within::{elements, locate, next};
