//! Failures of remote stores: refusals, timeouts, interrupted uploads, full disks, and stores that are not configured.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use results::contract::{noise_bytes, reference_to};
use results::{
    BodySource, BodyStore, CacheConfig, CloudTier, Codec, Compression, HomeStore, StorageOptions, StoreKind,
    StoreRouter, StoresConfig,
};
use tempfile::TempDir;
use tests::peers::{FakeGcs, FaultProxy, NatsServer, S3Server};
use tests::small_disk::SmallDisk;
use tokio::sync::Notify;

use crate::database_faults::InterceptedBody;
use crate::space_waits::SpaceWaits;
use crate::stores::{empty_config, nats_config, option_store};

const MIB: usize = 1024 * 1024;

/// How long a test waits for what must happen by itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn gcs_store(gcs: &FakeGcs, port: u16, dir: &TempDir) -> crate::stores::OptionStore {
    let config = StoresConfig {
        gcs: Some(gcs.config_at(port)),
        silence_max: Duration::from_secs(2),
        ..empty_config(dir)
    };
    option_store(&config, dir, StoreKind::Gcs, Compression::Uncompressed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_a_bucket_is_retried_after_a_short_failure() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let bodies = gcs_store(&gcs, gcs.port(), &dir);
    gcs.fail_next(500, 2);
    let stored = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
    gcs.fail_next(503, 2);
    assert!(bodies.get(&reference_to(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_always_fails_is_a_retryable_error() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let bodies = gcs_store(&gcs, gcs.port(), &dir);
    gcs.fail_next(500, u32::MAX);
    let error = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    assert!(error.is_retryable());
    assert!((2..10).contains(&gcs.requests()), "{}", gcs.requests());
    gcs.fail_next(403, u32::MAX);
    let error = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("STORAGE_REFUSED", false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_upload_is_invisible_and_removed() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let bodies = gcs_store(&gcs, gcs.port(), &dir);
    let body = noise_bytes(20 * MIB);
    let mut intercepted = InterceptedBody {
        remaining: body.clone(),
        acts_at_remaining: 0,
        action: Some(|| gcs.fail_next(500, 12)),
        halts_after: false,
    };
    let error = bodies.put(BodySource::Stream(&mut intercepted)).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    assert_eq!(gcs.counts().1, 0);
    gcs.fail_next(500, 0);
    let stored = bodies.put(BodySource::Stream(&mut &body[..])).await.unwrap();
    assert!(bodies.get(&reference_to(&stored)).await.unwrap() == body);
    let left = std::fs::read_dir(dir.path().join("scratch")).unwrap().count();
    assert_eq!(left, 0, "nothing waits any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_bucket_is_not_waited_for_without_end() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", gcs.port()));
    let bodies = gcs_store(&gcs, proxy.port(), &dir);
    let stored = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
    proxy.set_dropping_responses(true);
    let error = bodies.get(&reference_to(&stored)).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    proxy.set_dropping_responses(false);
    proxy.cut_connections();
    assert!(bodies.get(&reference_to(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_contains_the_secret_of_a_bucket() {
    let (s3, dir) = (S3Server::private(), TempDir::new().unwrap());
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", s3.port()));
    let config = StoresConfig {
        s3: Some(s3.config_at(proxy.port())),
        silence_max: Duration::from_secs(2),
        ..empty_config(&dir)
    };
    let bodies = option_store(&config, &dir, StoreKind::S3, Compression::Uncompressed);
    proxy.set_refusing(true);
    let error = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let mut text = format!("{config:?} {error:?} {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    assert!(!text.contains(s3.secret()), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_may_be_wiped_and_takes_bodies_again() {
    let (nats, dir) = (NatsServer::private(), TempDir::new().unwrap());
    let config = StoresConfig {
        nats: Some(nats_config(nats.url())),
        silence_max: Duration::from_secs(2),
        ..empty_config(&dir)
    };
    for kind in [StoreKind::NatsKv, StoreKind::NatsObject] {
        let bodies = option_store(&config, &dir, kind, Compression::Uncompressed);
        let stored = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
        nats.wipe();
        let error = bodies.get(&reference_to(&stored)).await.unwrap_err();
        assert_eq!(error.code(), "REFERENCE_NOT_AVAILABLE", "{error:?}");
        bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
        assert!(bodies.get(&reference_to(&stored)).await.is_ok());
    }
    let kv = option_store(&config, &dir, StoreKind::NatsKv, Compression::Uncompressed);
    let error = kv.put(BodySource::Bytes(noise_bytes(MIB + 1))).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("STORE_TOO_SMALL", false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_store_replaces_one_that_is_not_configured() {
    let dir = TempDir::new().unwrap();
    let config = empty_config(&dir);
    for (kind, variable) in [
        (StoreKind::S3, Some("NOETL_STORAGE_S3_BUCKET")),
        (StoreKind::Gcs, Some("NOETL_STORAGE_GCS_BUCKET")),
        (StoreKind::NatsKv, Some("NOETL_STORAGE_NATS_URL")),
        (StoreKind::Pvc, Some("NOETL_STORAGE_DIR")),
        (StoreKind::Postgres, None),
    ] {
        let bodies = option_store(&config, &dir, kind, Compression::Auto);
        let default = option_store(&config, &dir, StoreKind::Auto, Compression::Auto);
        let stored = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
        let expected = default.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
        assert_eq!(stored.store, expected.store, "{}", kind.name());
        assert_eq!(bodies.get(&reference_to(&stored)).await.unwrap(), noise_bytes(10));
        let remedies = [
            config.configuration_remedy(kind),
            bodies.stores.configuration_remedy(kind),
        ];
        for remedy in remedies {
            let names = |variable: &str| remedy.is_some_and(|remedy: &str| remedy.contains(variable));
            assert_eq!(remedy.is_some(), variable.is_some_and(names), "{}", kind.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_reads_bodies_of_unreachable_stores_through_its_server() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let server_stores = Arc::new(gcs_store(&gcs, gcs.port(), &dir).stores);
    let options = StorageOptions {
        kind: StoreKind::Gcs,
        compression: Compression::With(Codec::Zstd),
    };
    let body = Bytes::from(vec![b'x'; 3 * MIB]);
    let stored = server_stores
        .put_with(BodySource::Bytes(body.clone()), &options)
        .await
        .unwrap();
    assert_eq!((stored.store, stored.compression), ("gcs", Some("zstd")));
    let worker = StoreRouter::open(&empty_config(&dir), HomeStore::Server(server_stores)).unwrap();
    assert!(worker.get(&reference_to(&stored)).await.unwrap() == body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_bodies_go_to_nats_where_it_is_configured_and_others_to_the_tier() {
    let (nats, s3, dir) = (NatsServer::private(), S3Server::private(), TempDir::new().unwrap());
    let config = StoresConfig {
        nats: Some(nats_config(nats.url())),
        s3: Some(s3.config()),
        cloud_tier: Some(CloudTier::S3),
        ..empty_config(&dir)
    };
    let bodies = option_store(&config, &dir, StoreKind::Auto, Compression::Auto);
    for (count, store) in [(MIB, "nats_kv"), (MIB + 1, "s3")] {
        let body = noise_bytes(count);
        let stored = bodies.put(BodySource::Stream(&mut &body[..])).await.unwrap();
        assert_eq!((stored.store, stored.compression), (store, None));
        let text = Bytes::from("text ".repeat(count / 5 + 1).into_bytes()).slice(..count);
        let stored = bodies.put(BodySource::Bytes(text.clone())).await.unwrap();
        assert_eq!((stored.store, stored.compression), (store, Some("zstd")));
        assert!(bodies.get(&reference_to(&stored)).await.unwrap() == text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_serves_reads_while_the_bucket_is_unreachable_and_is_optional() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let cache = dir.path().join("cache");
    let config = StoresConfig {
        cloud_tier: Some(CloudTier::Gcs),
        gcs: Some(gcs.config()),
        cache: Some(CacheConfig {
            dir: cache.clone(),
            bytes_max: 1 << 30,
        }),
        silence_max: Duration::from_secs(2),
        ..empty_config(&dir)
    };
    for count in [10, 3 * MIB] {
        let bodies = option_store(&config, &dir, StoreKind::Disk, Compression::Uncompressed);
        let body = noise_bytes(count);
        let stored = bodies.put(BodySource::Stream(&mut &body[..])).await.unwrap();
        gcs.fail_next(500, u32::MAX);
        let reopened = option_store(&config, &dir, StoreKind::Disk, Compression::Uncompressed);
        assert!(
            reopened.get(&reference_to(&stored)).await.unwrap() == body,
            "after a restart"
        );
        gcs.fail_next(500, 0);
        std::fs::remove_dir_all(&cache).unwrap();
        assert!(bodies.stores.get(&reference_to(&stored)).await.unwrap() == body);
        let fresh = option_store(&config, &dir, StoreKind::Disk, Compression::Uncompressed);
        assert!(fresh.get(&reference_to(&stored)).await.unwrap() == body);
    }
}

/// Result stores on a small disk of their own: files that an earlier put leaves for a moment cannot make space on it.
struct SmallDiskStores {
    disk: SmallDisk,
    config: StoresConfig,
    dir: TempDir,
}

impl SmallDiskStores {
    fn new(gcs: &FakeGcs) -> Self {
        let dir = TempDir::new().expect("a directory");
        let disk = SmallDisk::mount(dir.path());
        let config = StoresConfig {
            dir: Some(disk.path("shared")),
            gcs: Some(gcs.config()),
            scratch: disk.path("scratch"),
            ..empty_config(&dir)
        };
        Self { disk, config, dir }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_bytes_until_there_is_space() {
    let gcs = FakeGcs::private();
    let small = SmallDiskStores::new(&gcs);
    let shared = option_store(&small.config, &small.dir, StoreKind::Pvc, Compression::Uncompressed);
    let filler = small.disk.fill();
    let refused = shared.put(BodySource::Bytes(noise_bytes(1000))).await.unwrap_err();
    let refused = (refused.code(), refused.is_retryable());
    assert_eq!(refused, ("STORAGE_FULL", true));
    drop(filler);
    let stored = shared.put(BodySource::Bytes(noise_bytes(1000))).await.unwrap();
    assert!(shared.get(&reference_to(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_makes_a_stream_wait() {
    let gcs = FakeGcs::private();
    for (kind, count) in [
        (StoreKind::Pvc, 1000),
        (StoreKind::Pvc, 3 * MIB),
        (StoreKind::Gcs, 3 * MIB),
    ] {
        let small = SmallDiskStores::new(&gcs);
        let bodies = option_store(&small.config, &small.dir, kind, Compression::Uncompressed);
        let (body, filler) = (noise_bytes(count), small.disk.fill());
        let mut stream = &body[..];
        let (waits, _guard) = SpaceWaits::watch();
        let mut putting = std::pin::pin!(bodies.put(BodySource::Stream(&mut stream)));
        let wait_for_space = async {
            tokio::select! {
                biased;
                stored = &mut putting => panic!("{}, {count}: {stored:?}", kind.name()),
                () = waits.notified() => {}
            }
        };
        tokio::time::timeout(WAIT_MAX, wait_for_space)
            .await
            .expect("the stream waits for space");
        drop(filler);
        let stored = tokio::time::timeout(WAIT_MAX, putting).await;
        let stored = stored.expect("there is space again").unwrap();
        assert!(bodies.get(&reference_to(&stored)).await.unwrap() == body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_stream_to_a_bucket_needs_no_disk() {
    let gcs = FakeGcs::private();
    let small = SmallDiskStores::new(&gcs);
    let bodies = option_store(&small.config, &small.dir, StoreKind::Gcs, Compression::Uncompressed);
    let (body, _filler) = (noise_bytes(1000), small.disk.fill());
    let mut stream = &body[..];
    let stored = bodies.put(BodySource::Stream(&mut stream)).await.unwrap();
    assert!(bodies.get(&reference_to(&stored)).await.unwrap() == body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_put_leaves_no_object_and_no_upload() {
    let (gcs, dir) = (FakeGcs::private(), TempDir::new().unwrap());
    let bodies = gcs_store(&gcs, gcs.port(), &dir);
    let halted = Arc::new(Notify::new());
    let halted_signal = halted.clone();
    let putting = tokio::spawn(async move {
        let mut intercepted = InterceptedBody {
            remaining: noise_bytes(20 * MIB),
            acts_at_remaining: MIB,
            action: Some(move || halted_signal.notify_one()),
            halts_after: true,
        };
        bodies.put(BodySource::Stream(&mut intercepted)).await
    });
    halted.notified().await;
    putting.abort();
    assert!(putting.await.unwrap_err().is_cancelled());
    assert_eq!(gcs.counts(), (0, 0));
    let left = std::fs::read_dir(dir.path().join("scratch")).unwrap();
    assert_eq!(left.count(), 0);
}
