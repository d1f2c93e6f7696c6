//! The system: version, store, retention and limits of a server.

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State and settings of the server that responds. Fields for admins are null for other callers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SystemStatus {
    /// Version of the server.
    pub version: String,
    /// Operating system and processor that the server was built for, such as `linux x86_64`.
    pub platform: String,
    /// Whether the server was built with optimizations.
    pub is_release_build: bool,
    /// When the server started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// Whether access tokens are required.
    pub requires_tokens: bool,
    /// The store.
    pub store: StoreStatus,
    /// The result stores.
    pub results: ResultStoreStatus,
    /// Whether events are published to NATS.
    pub publishes_events: bool,
    /// Address of the NATS server, without a password; only for admins.
    pub nats_address: Option<String>,
    /// Limits in force.
    pub limits: Vec<LimitEntry>,
}

/// The store of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// The database.
    pub kind: StoreBackend,
    /// Directory, or host, port and database; only for admins.
    pub location: Option<String>,
    /// Bytes of the tables and their indexes, including free space. With Postgres, they contain the results in the
    /// database.
    pub bytes: u64,
    /// Number of runs; at most 100,000 are counted.
    pub runs: u64,
    /// Whether `runs` includes all runs.
    pub is_runs_complete: bool,
}

/// The database of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreBackend {
    /// A SQLite file in a directory of this machine.
    Sqlite,
    /// A Postgres database that several servers share.
    Postgres,
}

/// Where results are stored, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultStoreStatus {
    /// How long results are kept after the end of their run, in seconds; null if this server does not delete them.
    pub retention_s: Option<u64>,
    /// Where results over 64 KiB are stored by default; only for admins.
    pub location: Option<String>,
    /// Result stores that are configured besides the store itself.
    pub configured: Vec<String>,
}

/// A limit in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitEntry {
    /// What is limited.
    pub name: String,
    /// The limit.
    pub value: u64,
    /// Unit of the limit.
    pub unit: LimitUnit,
    /// Error code if the limit is exceeded.
    pub code: Option<String>,
}

/// Unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitUnit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}
