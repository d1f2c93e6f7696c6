//! The suite on every store a task can name, as its processes reach it, plain, compressed and behind the cache.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use results::contract::Site;
use results::{
    Bodies, CacheConfig, CloudTier, Codec, Error, Home, Kind, Local, NatsConfig, Packing, Reading,
    Secret, Source, Stored, Stores, StoresConfig, Wish,
};
use tempfile::TempDir;
use tests::peers::{Gcs, Nats, S3};

/// Stores as a task with this wish sees them.
pub(crate) struct Wishing {
    pub(crate) stores: Stores,
    pub(crate) wish: Wish,
}

#[async_trait]
impl Bodies for Wishing {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        self.stores.put_as(body, &self.wish).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.stores.get(reference).await
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<Reading, Error> {
        self.stores.read(reference, range).await
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.stores.delete(reference).await
    }
}

/// No store but the server's own, in this directory.
pub(crate) fn nothing(dir: &TempDir) -> StoresConfig {
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

pub(crate) fn wishing(
    config: &StoresConfig,
    dir: &TempDir,
    kind: Kind,
    compression: Packing,
) -> Wishing {
    let home = Home::Own(Arc::new(Local::open(dir.path()).unwrap()));
    let stores = Stores::open(config, home);
    Wishing {
        stores: stores.unwrap_or_else(|error| panic!("{error:?}")),
        wish: Wish { kind, compression },
    }
}

/// What the store holds, by its hash: the body itself, or what it was compressed to.
fn held(stored: &Stored) -> &str {
    let packed = stored.location.get("stored_sha256");
    packed
        .and_then(|hash| hash.as_str())
        .unwrap_or(&stored.sha256)
}

fn flip(bytes: &mut [u8]) {
    *bytes.last_mut().unwrap() ^= 1;
}

struct InS3 {
    s3: S3,
    dir: TempDir,
    compression: Packing,
    is_cached: bool,
}

impl InS3 {
    fn new(compression: Packing, is_cached: bool) -> Self {
        Self {
            s3: S3::private(),
            dir: TempDir::new().unwrap(),
            compression,
            is_cached,
        }
    }
}

#[async_trait]
impl Site for InS3 {
    async fn join(&self) -> Arc<dyn Bodies> {
        let cache = CacheConfig {
            dir: self.dir.path().join("cache"),
            bytes_max: 1 << 30,
        };
        let config = StoresConfig {
            cloud_tier: Some(CloudTier::S3),
            s3: Some(self.s3.config()),
            cache: self.is_cached.then_some(cache),
            ..nothing(&self.dir)
        };
        Arc::new(wishing(&config, &self.dir, Kind::Disk, self.compression))
    }

    fn tells_the_old(&self) -> bool {
        false
    }

    async fn damage(&self, stored: &Stored) {
        assert_eq!(
            (stored.store, stored.location["bucket"].as_str()),
            ("s3", Some(S3::BUCKET))
        );
        let key = stored.location["key"].as_str().unwrap();
        let mut bytes = self.s3.get(key).unwrap();
        flip(&mut bytes);
        self.s3.put(key, &bytes);
        for pool in ["meta", "data"] {
            let file = self.dir.path().join("cache").join(pool).join(held(stored));
            if let Ok(mut bytes) = std::fs::read(&file) {
                flip(&mut bytes);
                std::fs::write(file, bytes).unwrap();
            }
        }
    }
}

mod s3 {
    use super::*;
    results::contract_suite!(InS3::new(Packing::Plain, false));
}

mod s3_compressed {
    use super::*;
    results::contract_suite!(InS3::new(Packing::With(Codec::Zstd), false));
}

mod disk_before_s3 {
    use super::*;
    results::contract_suite!(InS3::new(Packing::Auto, true));
}

struct InGcs {
    gcs: Gcs,
    dir: TempDir,
}

impl InGcs {
    fn new() -> Self {
        Self {
            gcs: Gcs::private(),
            dir: TempDir::new().unwrap(),
        }
    }
}

#[async_trait]
impl Site for InGcs {
    async fn join(&self) -> Arc<dyn Bodies> {
        let config = StoresConfig {
            gcs: Some(self.gcs.config()),
            ..nothing(&self.dir)
        };
        Arc::new(wishing(&config, &self.dir, Kind::Gcs, Packing::Plain))
    }

    fn tells_the_old(&self) -> bool {
        false
    }

    async fn damage(&self, stored: &Stored) {
        assert_eq!(stored.store, "gcs");
        let object = stored.location["object"].as_str().unwrap();
        self.gcs.change(object, |bytes| flip(bytes));
    }
}

mod gcs {
    use super::*;
    results::contract_suite!(InGcs::new());
}

struct InNats {
    nats: Nats,
    dir: TempDir,
    kind: Kind,
}

impl InNats {
    fn new(kind: Kind) -> Self {
        Self {
            nats: Nats::private(),
            dir: TempDir::new().unwrap(),
            kind,
        }
    }
}

pub(crate) fn nats_config(url: String) -> NatsConfig {
    NatsConfig {
        url: Secret::new(url),
        bucket: "bodies".to_owned(),
    }
}

#[async_trait]
impl Site for InNats {
    async fn join(&self) -> Arc<dyn Bodies> {
        let config = StoresConfig {
            nats: Some(nats_config(self.nats.url())),
            ..nothing(&self.dir)
        };
        Arc::new(wishing(&config, &self.dir, self.kind, Packing::Plain))
    }

    fn tells_the_old(&self) -> bool {
        false
    }

    async fn damage(&self, stored: &Stored) {
        let client = async_nats::connect(self.nats.url()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let key = stored.location["key"].as_str().unwrap();
        let mut other = vec![7; usize::try_from(stored.bytes).unwrap()];
        flip(&mut other);
        if self.kind == Kind::NatsKv {
            let bucket = context.get_key_value("bodies").await.unwrap();
            bucket.put(key, other.into()).await.unwrap();
        } else {
            let bucket = context.get_object_store("bodies").await.unwrap();
            bucket.put(key, &mut &other[..]).await.unwrap();
        }
    }

    fn bytes_max(&self) -> usize {
        match self.kind {
            Kind::NatsKv => 1024 * 1024,
            _ => 5 * 1024 * 1024 + 17,
        }
    }
}

mod nats_kv {
    use super::*;
    results::contract_suite!(InNats::new(Kind::NatsKv));
}

mod nats_object {
    use super::*;
    results::contract_suite!(InNats::new(Kind::NatsObject));
}

struct InDirectory {
    dir: TempDir,
    kind: Kind,
    compression: Packing,
}

impl InDirectory {
    fn new(kind: Kind, compression: Packing) -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            kind,
            compression,
        }
    }
}

#[async_trait]
impl Site for InDirectory {
    async fn join(&self) -> Arc<dyn Bodies> {
        let config = StoresConfig {
            dir: Some(self.dir.path().join("shared")),
            ..nothing(&self.dir)
        };
        Arc::new(wishing(&config, &self.dir, self.kind, self.compression))
    }

    fn tells_the_old(&self) -> bool {
        false
    }

    async fn damage(&self, stored: &Stored) {
        let (rack, rest) = held(stored).split_at(2);
        let root = match self.kind {
            Kind::Pvc => self.dir.path().join("shared"),
            _ => self.dir.path().to_owned(),
        };
        let file = root.join("bodies").join(rack).join(rest);
        let mut bytes = std::fs::read(&file).unwrap();
        flip(&mut bytes);
        std::fs::write(file, bytes).unwrap();
    }
}

mod pvc {
    use super::*;
    results::contract_suite!(InDirectory::new(Kind::Pvc, Packing::Plain));
}

mod disk_compressed {
    use super::*;
    results::contract_suite!(InDirectory::new(Kind::Auto, Packing::With(Codec::Gzip)));
}
