//! Result bodies: small results stay inline in the log, larger ones are stored and referenced by a `ResultRef`. Also
//! the output of tasks.
//!
//! [`LargeResult`] stores a value, a [`ResultWriter`] streams text that does not fit into memory; a [`BodyStore`] implementation
//! stores bodies, and [`StoreRouter`] combines all stores of a process. A reference is returned only after its body is
//! durable, and a body only after its hash was checked.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bodies;
mod cache;
mod compress;
mod config;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod disk_space;
mod error;
mod extract;
mod files;
mod json;
mod large_result;
mod local;
mod logs;
mod nats;
mod objects;
mod partial_read;
mod postgres;
mod private_dir;
mod result_writer;
mod secret;
mod staged_body;
mod storage_options;
mod store_router;
mod stream_hasher;
mod temp_body_file;

pub use self::postgres::{PostgresBodyStore, PostgresLogs};
pub use bodies::{BodyEntry, BodySource, BodyStore, BodyStream, ByteStream, OldBodyQuery, StoredBody, decode_body};
pub use config::{CacheConfig, CloudTier, GcsConfig, GcsIdentity, NatsConfig, S3Config, StoresConfig};
pub use disk_space::{SpaceWatch, SpoolFile};
pub use error::{Error, missing_reason};
pub use extract::{build_preview, extract_fields, select_fields};
pub use json::{ElementOffsets, JsonScanError, JsonScanner, LocatedValue, parse_plain_path};
pub use large_result::{LargeResult, ResultOrigin};
pub use local::{DirBodyStore, sha256};
pub use logs::{FileLogs, LOG_BYTES_MAX, LogPage, LogPosition, LogQuery, StoredLine, TaskLogs, read_logs};
pub use objects::{Bucket, BucketError, ObjectPage, ObjectStream, ObjectSummary};
pub use partial_read::{locate_value, next_chunk, read_elements};
pub use private_dir::make_private_dir;
pub use result_writer::{MissingPaths, ResultWriter};
pub use secret::SecretString;
pub use storage_options::{Codec, Compression, StorageOptions, StoreKind};
pub use store_router::{HomeStore, StoreRouter};
