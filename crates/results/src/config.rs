//! Where bodies may be kept besides the server's own store, as values.

use std::path::PathBuf;
use std::time::Duration;

use crate::secret::Secret;

/// What a process knows of stores.
#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// Where `disk` keeps bodies for good; the server's own store if there is none.
    pub cloud_tier: Option<CloudTier>,
    /// The cache before that.
    pub cache: Option<CacheConfig>,
    /// A bucket of S3.
    pub s3: Option<S3Config>,
    /// A bucket of Google Cloud Storage.
    pub gcs: Option<GcsConfig>,
    /// Buckets of NATS.
    pub nats: Option<NatsConfig>,
    /// A directory that every process can reach, for `pvc`.
    pub dir: Option<PathBuf>,
    /// How long a store elsewhere may be silent before it is asked again.
    pub silence_max: Duration,
    /// Where bodies wait whose hash is not known yet.
    pub scratch: PathBuf,
}

/// A store that keeps bodies for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudTier {
    /// S3.
    S3,
    /// Google Cloud Storage.
    Gcs,
}

/// A cache of bodies on this machine.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Its directory.
    pub dir: PathBuf,
    /// How much of the disk it may take.
    pub bytes_max: u64,
}

/// A bucket of S3.
#[derive(Debug, Clone)]
pub struct S3Config {
    /// Its name.
    pub bucket: String,
    /// Where it is, if not at Amazon.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The `AWS_…` variables that say who asks.
    pub credentials: Vec<(String, Secret)>,
}

/// A bucket of Google Cloud Storage.
#[derive(Debug, Clone)]
pub struct GcsConfig {
    /// Its name.
    pub bucket: String,
    /// Where it is, if not at Google.
    pub endpoint: Option<String>,
    /// The file that says who asks; the machine's own account if there is none.
    pub credentials: Option<PathBuf>,
}

/// Who asks Google.
#[derive(Debug, Clone)]
pub enum GcsIdentity {
    /// A file that says so.
    File(PathBuf),
    /// The key of a service account, as JSON.
    Key(Secret),
    /// A token that was got elsewhere.
    Token(Secret),
    /// Nobody in particular.
    Anybody,
    /// The machine's own account.
    Machine,
}

/// Buckets of NATS.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// The server, with who asks.
    pub url: Secret,
    /// The name of both buckets.
    pub bucket: String,
}
