//! The suite on every store a task can name, as its processes reach it, plain, compressed and behind the cache.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use results::contract::BodyStoreFixture;
use results::{
    BodySource, BodyStore, BodyStream, CacheConfig, CloudTier, Codec, Compression, DirBodyStore, Error, HomeStore,
    NatsConfig, SecretString, StorageOptions, StoreKind, StoreRouter, StoredBody, StoresConfig,
};
use tempfile::TempDir;
use tests::peers::{FakeGcs, NatsServer, S3Server};

/// The stores, with the storage options of a task.
pub(crate) struct OptionStore {
    pub(crate) stores: StoreRouter,
    pub(crate) options: StorageOptions,
}

#[async_trait]
impl BodyStore for OptionStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        self.stores.put_with(body, &self.options).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.stores.get(reference).await
    }

    async fn read(&self, reference: &ResultRef, range: Option<std::ops::Range<u64>>) -> Result<BodyStream, Error> {
        self.stores.read(reference, range).await
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.stores.delete(reference).await
    }
}

/// No store but the server's own, in this directory.
pub(crate) fn empty_config(dir: &TempDir) -> StoresConfig {
    StoresConfig {
        cloud_tier: None,
        cache: None,
        s3: None,
        gcs: None,
        nats: None,
        dir: None,
        silence_max: Duration::from_secs(20),
        scratch: dir.path().join("scratch"),
    }
}

pub(crate) fn option_store(
    config: &StoresConfig,
    dir: &TempDir,
    kind: StoreKind,
    compression: Compression,
) -> OptionStore {
    let home_store = HomeStore::Own(Arc::new(DirBodyStore::open(dir.path()).unwrap()));
    let stores = StoreRouter::open(config, home_store);
    OptionStore {
        stores: stores.unwrap_or_else(|error| panic!("{error:?}")),
        options: StorageOptions { kind, compression },
    }
}

/// Bytes that the store contains under a hash: the body or its compressed form.
fn stored_name(stored: &StoredBody) -> &str {
    let packed = stored.location.get("stored_sha256");
    packed.and_then(|hash| hash.as_str()).unwrap_or(&stored.sha256)
}

fn flip_bits(bytes: &mut [u8]) {
    *bytes.last_mut().unwrap() ^= 1;
}

struct S3Fixture {
    s3: S3Server,
    dir: TempDir,
    compression: Compression,
    is_cached: bool,
}

impl S3Fixture {
    fn new(compression: Compression, is_cached: bool) -> Self {
        Self {
            s3: S3Server::private(),
            dir: TempDir::new().unwrap(),
            compression,
            is_cached,
        }
    }
}

#[async_trait]
impl BodyStoreFixture for S3Fixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        let cache = CacheConfig {
            dir: self.dir.path().join("cache"),
            bytes_max: 1 << 30,
        };
        let config = StoresConfig {
            cloud_tier: Some(CloudTier::S3),
            s3: Some(self.s3.config()),
            cache: self.is_cached.then_some(cache),
            ..empty_config(&self.dir)
        };
        Arc::new(option_store(&config, &self.dir, StoreKind::Disk, self.compression))
    }

    fn has_age_listing(&self) -> bool {
        false
    }

    async fn damage_body(&self, stored: &StoredBody) {
        assert_eq!(
            (stored.store, stored.location["bucket"].as_str()),
            ("s3", Some(S3Server::BUCKET))
        );
        let key = stored.location["key"].as_str().unwrap();
        let mut bytes = self.s3.get_object(key).unwrap();
        flip_bits(&mut bytes);
        self.s3.put_object(key, &bytes);
        for pool in ["meta", "data"] {
            let file = self.dir.path().join("cache").join(pool).join(stored_name(stored));
            if let Ok(mut bytes) = std::fs::read(&file) {
                flip_bits(&mut bytes);
                std::fs::write(file, bytes).unwrap();
            }
        }
    }
}

mod s3 {
    use super::*;
    results::contract_suite!(S3Fixture::new(Compression::Uncompressed, false));
}

mod s3_compressed {
    use super::*;
    results::contract_suite!(S3Fixture::new(Compression::With(Codec::Zstd), false));
}

mod disk_before_s3 {
    use super::*;
    results::contract_suite!(S3Fixture::new(Compression::Auto, true));
}

struct GcsFixture {
    gcs: FakeGcs,
    dir: TempDir,
}

impl GcsFixture {
    fn new() -> Self {
        Self {
            gcs: FakeGcs::private(),
            dir: TempDir::new().unwrap(),
        }
    }
}

#[async_trait]
impl BodyStoreFixture for GcsFixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        let config = StoresConfig {
            gcs: Some(self.gcs.config()),
            ..empty_config(&self.dir)
        };
        Arc::new(option_store(
            &config,
            &self.dir,
            StoreKind::Gcs,
            Compression::Uncompressed,
        ))
    }

    fn has_age_listing(&self) -> bool {
        false
    }

    async fn damage_body(&self, stored: &StoredBody) {
        assert_eq!(stored.store, "gcs");
        let object = stored.location["object"].as_str().unwrap();
        self.gcs.modify_object(object, |bytes| flip_bits(bytes));
    }
}

mod gcs {
    use super::*;
    results::contract_suite!(GcsFixture::new());
}

struct NatsBodyFixture {
    nats: NatsServer,
    dir: TempDir,
    kind: StoreKind,
}

impl NatsBodyFixture {
    fn new(kind: StoreKind) -> Self {
        Self {
            nats: NatsServer::private(),
            dir: TempDir::new().unwrap(),
            kind,
        }
    }
}

pub(crate) fn nats_config(url: String) -> NatsConfig {
    NatsConfig {
        url: SecretString::new(url),
        bucket: "bodies".to_owned(),
    }
}

#[async_trait]
impl BodyStoreFixture for NatsBodyFixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        let config = StoresConfig {
            nats: Some(nats_config(self.nats.url())),
            ..empty_config(&self.dir)
        };
        Arc::new(option_store(&config, &self.dir, self.kind, Compression::Uncompressed))
    }

    fn has_age_listing(&self) -> bool {
        false
    }

    async fn damage_body(&self, stored: &StoredBody) {
        let client = async_nats::connect(self.nats.url()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let key = stored.location["key"].as_str().unwrap();
        let mut other = vec![7; usize::try_from(stored.bytes).unwrap()];
        flip_bits(&mut other);
        if self.kind == StoreKind::NatsKv {
            let bucket = context.get_key_value("bodies").await.unwrap();
            bucket.put(key, other.into()).await.unwrap();
        } else {
            let bucket = context.get_object_store("bodies").await.unwrap();
            bucket.put(key, &mut &other[..]).await.unwrap();
        }
    }

    fn bytes_max(&self) -> usize {
        match self.kind {
            StoreKind::NatsKv => 1024 * 1024,
            _ => 5 * 1024 * 1024 + 17,
        }
    }
}

mod nats_kv {
    use super::*;
    results::contract_suite!(NatsBodyFixture::new(StoreKind::NatsKv));
}

mod nats_object {
    use super::*;
    results::contract_suite!(NatsBodyFixture::new(StoreKind::NatsObject));
}

struct DirFixture {
    dir: TempDir,
    kind: StoreKind,
    compression: Compression,
}

impl DirFixture {
    fn new(kind: StoreKind, compression: Compression) -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            kind,
            compression,
        }
    }
}

#[async_trait]
impl BodyStoreFixture for DirFixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        let config = StoresConfig {
            dir: Some(self.dir.path().join("shared")),
            ..empty_config(&self.dir)
        };
        Arc::new(option_store(&config, &self.dir, self.kind, self.compression))
    }

    fn has_age_listing(&self) -> bool {
        false
    }

    async fn damage_body(&self, stored: &StoredBody) {
        let (folder, file_name) = stored_name(stored).split_at(2);
        let root = match self.kind {
            StoreKind::Pvc => self.dir.path().join("shared"),
            _ => self.dir.path().to_owned(),
        };
        let file = root.join("bodies").join(folder).join(file_name);
        let mut bytes = std::fs::read(&file).unwrap();
        flip_bits(&mut bytes);
        std::fs::write(file, bytes).unwrap();
    }
}

mod pvc {
    use super::*;
    results::contract_suite!(DirFixture::new(StoreKind::Pvc, Compression::Uncompressed));
}

mod disk_compressed {
    use super::*;
    results::contract_suite!(DirFixture::new(StoreKind::Auto, Compression::With(Codec::Gzip)));
}
