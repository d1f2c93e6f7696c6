//! Configuration of result stores besides the server's own.

use std::path::PathBuf;
use std::time::Duration;

use crate::secret::SecretString;

/// Configuration of the result stores of a process.
#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// Bucket for the store `disk`; `None` uses the server's own store.
    pub cloud_tier: Option<CloudTier>,
    /// Cache in front of that store.
    pub cache: Option<CacheConfig>,
    /// S3 bucket.
    pub s3: Option<S3Config>,
    /// Google Cloud Storage bucket.
    pub gcs: Option<GcsConfig>,
    /// NATS buckets.
    pub nats: Option<NatsConfig>,
    /// Directory that all processes share, for `pvc`.
    pub dir: Option<PathBuf>,
    /// Timeout of remote stores: how long one may not respond.
    pub silence_max: Duration,
    /// Directory for bodies whose hash is not known yet.
    pub scratch: PathBuf,
}

/// A bucket for the store `disk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudTier {
    /// S3.
    S3,
    /// Google Cloud Storage.
    Gcs,
}

/// Cache of bodies on this machine.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Directory of the cache.
    pub dir: PathBuf,
    /// Maximum size on disk.
    pub bytes_max: u64,
}

/// Configuration of an S3 bucket.
#[derive(Debug, Clone)]
pub struct S3Config {
    /// Name of the bucket.
    pub bucket: String,
    /// Endpoint, if not Amazon's.
    pub endpoint: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// `AWS_…` variables with the credentials.
    pub credentials: Vec<(String, SecretString)>,
}

/// Configuration of a Google Cloud Storage bucket.
#[derive(Debug, Clone)]
pub struct GcsConfig {
    /// Name of the bucket.
    pub bucket: String,
    /// Endpoint, if not Google's.
    pub endpoint: Option<String>,
    /// Credentials file; `None` uses the account of the machine.
    pub credentials: Option<PathBuf>,
}

/// Credentials for Google Cloud Storage.
#[derive(Debug, Clone)]
pub enum GcsIdentity {
    /// Credentials file.
    File(PathBuf),
    /// Service account key, as JSON.
    Key(SecretString),
    /// Access token.
    Token(SecretString),
    /// Anonymous.
    Anonymous,
    /// Account of the machine, from the metadata server.
    MetadataServer,
}

/// Configuration of the NATS buckets.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// Server URL with credentials.
    pub url: SecretString,
    /// Name of both buckets.
    pub bucket: String,
}
