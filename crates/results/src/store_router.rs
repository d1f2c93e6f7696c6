//! Combines all result stores of a process: stores a body where its task requests it, and reads it where its reference
//! points.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use model::time::Time;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::cache::{BackingStore, BodyCache, CachedBodyStore};
use crate::compress::{self, CompressedBody};
use crate::config::{CloudTier, StoresConfig};
use crate::disk_space::put_when_free;
use crate::files::{disk_error, remove_stale_files};
use crate::nats::{KV_BYTES_MAX, NatsConnection, NatsKvBodyStore, NatsObjectBodyStore};
use crate::objects::BucketBodyStore;
use crate::private_dir::make_private_dir;
use crate::storage_options::{Codec, StorageOptions, StoreKind};
use crate::{BodyEntry, BodySource, BodyStore, BodyStream, DirBodyStore, Error, OldBodyQuery, StoredBody};

/// The store that every deployment has.
pub enum HomeStore {
    /// The store of this process: the server's directory or database.
    Own(Arc<dyn BodyStore>),
    /// The store of a server behind its API; the server also reads stores that this process cannot access.
    Server(Arc<dyn BodyStore>),
}

/// All result stores of this process.
pub struct StoreRouter {
    home: HomeStore,
    /// The home store; behind the cache, if the cache belongs to it.
    cached_home: Arc<dyn BodyStore>,
    /// Store for `disk`.
    disk: Arc<dyn BodyStore>,
    configured: BTreeMap<StoreKind, Arc<dyn BodyStore>>,
    spill_location: String,
    /// Stores that tasks named although they are not configured; each is logged once.
    logged_missing: Mutex<BTreeSet<StoreKind>>,
}

impl HomeStore {
    fn store(&self) -> &Arc<dyn BodyStore> {
        match self {
            Self::Own(store) | Self::Server(store) => store,
        }
    }
}

impl StoreRouter {
    /// Opens the configured stores and the home store. No request is sent yet.
    pub fn open(config: &StoresConfig, home_store: HomeStore) -> Result<Self, Error> {
        // Bodies are moved from the scratch directory into the cache, so both must be on the same disk.
        let scratch = &match &config.cache {
            Some(cache) => cache.dir.join("new"),
            None => config.scratch.clone(),
        };
        let silence_max = config.silence_max;
        let mut stores: BTreeMap<StoreKind, Arc<dyn BodyStore>> = BTreeMap::new();
        let uses_scratch = config.s3.is_some() || config.gcs.is_some() || config.nats.is_some();
        if uses_scratch {
            make_private_dir(scratch).map_err(|error| disk_error(scratch, error))?;
            remove_stale_files(scratch);
        }
        let s3 = config.s3.as_ref();
        let s3 = s3.map(|s3| BucketBodyStore::s3(s3, silence_max, scratch.clone()));
        let gcs = config.gcs.as_ref();
        let gcs = gcs.map(|gcs| BucketBodyStore::gcs(gcs, silence_max, scratch.clone()));
        let (s3, gcs) = (s3.transpose()?, gcs.transpose()?);
        for (kind, bucket) in [(StoreKind::S3, &s3), (StoreKind::Gcs, &gcs)] {
            if let Some(bucket) = bucket {
                stores.insert(kind, Arc::new(bucket.clone()));
            }
        }
        if let Some(nats) = &config.nats {
            let connection = Arc::new(NatsConnection::new(nats.clone(), silence_max));
            stores.insert(StoreKind::NatsKv, Arc::new(NatsKvBodyStore::new(connection.clone())));
            let objects = NatsObjectBodyStore::new(connection, scratch.clone());
            stores.insert(StoreKind::NatsObject, Arc::new(objects));
        }
        if let Some(dir) = &config.dir {
            stores.insert(StoreKind::Pvc, Arc::new(DirBodyStore::open_shared(dir)?));
        }
        let tier = match config.cloud_tier {
            Some(CloudTier::S3) => Some((StoreKind::S3, s3.ok_or_else(|| not_configured_error(StoreKind::S3))?)),
            Some(CloudTier::Gcs) => Some((StoreKind::Gcs, gcs.ok_or_else(|| not_configured_error(StoreKind::Gcs))?)),
            None => None,
        };
        let spill = SpillTarget::new(config, tier, &home_store)?;
        let cached_home = match spill.tier {
            Some(kind) => {
                // Tasks that name the bucket use the same cache.
                stores.insert(kind, spill.store.clone());
                home_store.store().clone()
            }
            None => spill.store.clone(),
        };
        Ok(Self {
            home: home_store,
            cached_home,
            disk: spill.store,
            configured: stores,
            spill_location: spill.location,
            logged_missing: Mutex::default(),
        })
    }

    /// Location of bodies whose task names no store, for display.
    pub fn spill_location(&self) -> &str {
        &self.spill_location
    }

    /// Returns the store for a body. If the named store is not configured, returns the default store: the location of
    /// results must not decide whether a playbook runs.
    fn choose_store(&self, kind: StoreKind, is_small: bool) -> &Arc<dyn BodyStore> {
        match kind {
            StoreKind::Auto => {
                let kv = self.configured.get(&StoreKind::NatsKv).filter(|_| is_small);
                kv.unwrap_or(&self.disk)
            }
            StoreKind::Disk => &self.disk,
            StoreKind::Postgres => self.home.store(),
            kind => self.configured.get(&kind).unwrap_or_else(|| {
                self.log_missing(kind);
                self.choose_store(StoreKind::Auto, is_small)
            }),
        }
    }

    /// Logs once that a store is not configured.
    fn log_missing(&self, kind: StoreKind) {
        let mut logged = self.logged_missing.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(kind) {
            let (store, remedy) = (kind.name(), store_remedy(kind));
            tracing::warn!(store, remedy, "store is not configured; using the default store");
        }
    }

    /// Returns the store of a reference.
    fn store_of(&self, reference: &ResultRef) -> Result<&dyn BodyStore, Error> {
        let kind = match StoreKind::from_name(&reference.store) {
            // Old references may have names that are not used any more; they mean the server's own store.
            None | Some(StoreKind::Auto | StoreKind::Disk | StoreKind::Postgres) => {
                return Ok(&*self.cached_home);
            }
            Some(kind) => kind,
        };
        match (self.configured.get(&kind), &self.home) {
            (Some(store), _) => Ok(&**store),
            (None, HomeStore::Server(server)) => Ok(&**server),
            (None, HomeStore::Own(_)) => Err(not_configured_error(kind)),
        }
    }
}

/// Store for `disk`.
struct SpillTarget {
    store: Arc<dyn BodyStore>,
    tier: Option<StoreKind>,
    location: String,
}

impl SpillTarget {
    fn new(
        config: &StoresConfig,
        tier: Option<(StoreKind, BucketBodyStore)>,
        home_store: &HomeStore,
    ) -> Result<Self, Error> {
        let bucket = tier.as_ref().map(|(_, bucket)| bucket.location());
        let mut location = bucket.unwrap_or_else(|| "the server's own store".to_owned());
        let kind = tier.as_ref().map(|(kind, _)| *kind);
        let store: Arc<dyn BodyStore> = match (&config.cache, tier) {
            (Some(cache), tier) => {
                location.push_str(&format!(", with a cache in {}", cache.dir.display()));
                let backing_store = match tier {
                    Some((_, bucket)) => BackingStore::Bucket(bucket),
                    None => BackingStore::Store(home_store.store().clone()),
                };
                let cache = BodyCache::open(cache)?;
                Arc::new(CachedBodyStore { backing_store, cache })
            }
            (None, Some((_, bucket))) => Arc::new(bucket),
            (None, None) => home_store.store().clone(),
        };
        Ok(Self {
            store,
            tier: kind,
            location,
        })
    }
}

/// A body whose beginning was read.
enum PeekedBody<'a> {
    Complete(Bytes),
    Partial {
        head: Vec<u8>,
        remaining: &'a mut (dyn AsyncRead + Send + Unpin),
    },
}

impl<'a> PeekedBody<'a> {
    async fn peek(body: BodySource<'a>) -> Result<Self, Error> {
        let remaining = match body {
            BodySource::Bytes(bytes) => return Ok(Self::Complete(bytes)),
            BodySource::Stream(reader) => reader,
        };
        let mut head = Vec::new();
        let mut beginning = (&mut *remaining).take(KV_BYTES_MAX as u64 + 1);
        let read = beginning.read_to_end(&mut head).await;
        read.map_err(Error::Interrupted)?;
        if head.len() > KV_BYTES_MAX {
            return Ok(Self::Partial { head, remaining });
        }
        Ok(Self::Complete(head.into()))
    }

    fn head(&self) -> &[u8] {
        match self {
            Self::Complete(bytes) => bytes,
            Self::Partial { head, .. } => head,
        }
    }

    fn is_small(&self) -> bool {
        matches!(self, Self::Complete(bytes) if bytes.len() <= KV_BYTES_MAX)
    }
}

/// Stores a body, compressed if a codec is given.
async fn put_with_codec(
    store: &dyn BodyStore,
    codec: Option<Codec>,
    source: BodySource<'_>,
) -> Result<StoredBody, Error> {
    match codec {
        Some(codec) => compress::put_compressed(store, codec, source).await,
        None => store.put(source).await,
    }
}

/// Returns how to configure a store.
fn store_remedy(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::S3 => {
            "set NOETL_STORAGE_S3_BUCKET (and _ENDPOINT, _REGION), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        StoreKind::Gcs => "set NOETL_STORAGE_GCS_BUCKET and GOOGLE_APPLICATION_CREDENTIALS",
        StoreKind::NatsKv | StoreKind::NatsObject => "set NOETL_STORAGE_NATS_URL",
        StoreKind::Pvc => "set NOETL_STORAGE_DIR to a directory that every process can reach",
        StoreKind::Postgres => "start the server with --store postgres://…",
        StoreKind::Auto | StoreKind::Disk => "it is always configured",
    }
}

fn not_configured_error(kind: StoreKind) -> Error {
    Error::NotConfigured {
        store: kind.name().to_owned(),
        remedy: store_remedy(kind).to_owned(),
    }
}

impl StoresConfig {
    /// Returns how to configure a store; `None` if it is configured. Does not check which kind the server's own store
    /// is.
    pub fn configuration_remedy(&self, kind: StoreKind) -> Option<&'static str> {
        let is_configured = match kind {
            StoreKind::S3 => self.s3.is_some(),
            StoreKind::Gcs => self.gcs.is_some(),
            StoreKind::NatsKv | StoreKind::NatsObject => self.nats.is_some(),
            StoreKind::Pvc => self.dir.is_some(),
            StoreKind::Auto | StoreKind::Disk | StoreKind::Postgres => true,
        };
        (!is_configured).then(|| store_remedy(kind))
    }
}

#[async_trait]
impl BodyStore for StoreRouter {
    /// Stores in the server's own store without options, so that the body can be found by its hash alone.
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        self.home.store().put(body).await
    }

    fn configuration_remedy(&self, kind: StoreKind) -> Option<&'static str> {
        let is_configured = match kind {
            StoreKind::Auto | StoreKind::Disk | StoreKind::Postgres => true,
            kind => self.configured.contains_key(&kind),
        };
        (!is_configured).then(|| store_remedy(kind))
    }

    async fn put_with(&self, body: BodySource<'_>, options: &StorageOptions) -> Result<StoredBody, Error> {
        let is_stream = matches!(body, BodySource::Stream(_));
        let body = PeekedBody::peek(body).await?;
        let store = self.choose_store(options.kind, body.is_small());
        let codec = compress::choose_codec(options.compression, body.head()).await;
        let stored = match body {
            // The sender cannot read the stream again, so a short one waits for space too.
            PeekedBody::Complete(bytes) if is_stream => {
                let put = || put_with_codec(&**store, codec, BodySource::Bytes(bytes.clone()));
                put_when_free(put).await?
            }
            PeekedBody::Complete(bytes) => put_with_codec(&**store, codec, BodySource::Bytes(bytes)).await?,
            PeekedBody::Partial { head, remaining } => {
                let mut whole_body = std::io::Cursor::new(head).chain(remaining);
                put_with_codec(&**store, codec, BodySource::Stream(&mut whole_body)).await?
            }
        };
        if options.kind == StoreKind::Postgres && stored.store != StoreKind::Postgres.name() {
            self.log_missing(StoreKind::Postgres);
        }
        Ok(stored)
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let store = self.store_of(reference)?;
        match CompressedBody::from_ref(reference)? {
            Some(compressed) => compress::get_decompressed(store, &compressed, reference).await,
            None => store.get(reference).await,
        }
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let store = self.store_of(reference)?;
        match CompressedBody::from_ref(reference)? {
            Some(compressed) => compress::read_decompressed(store, &compressed, reference, range).await,
            None => store.read(reference, range).await,
        }
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let store = self.store_of(reference)?;
        match CompressedBody::from_ref(reference) {
            Ok(Some(compressed)) => store.delete(&compressed.stored_ref).await,
            _ => store.delete(reference).await,
        }
    }

    /// Lists the server's own store only; lifecycle rules expire the bodies in buckets.
    async fn stored_before(&self, query: &OldBodyQuery<'_>) -> Result<Vec<BodyEntry>, Error> {
        let home_store = self.home.store();
        home_store.stored_before(query).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        self.home.store().delete_stored_before(sha256, before).await
    }
}
