//! What goes wrong with stores elsewhere: refusals, silence, uploads that break off, full disks, and stores nobody configured.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use results::contract::{noise, reference};
use results::{
    Bodies, CacheConfig, CloudTier, Codec, Home, Kind, Packing, Source, Stores, StoresConfig, Wish,
};
use tempfile::TempDir;
use tests::peers::{Gcs, Nats, Proxy, S3};
use tests::small_disk::SmallDisk;
use tokio::sync::Notify;

use crate::faults::Passing;
use crate::space_waits::SpaceWaits;
use crate::stores::{nats_config, nothing, wishing};

const MIB: usize = 1024 * 1024;

/// How long a test waits for what must happen by itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn in_gcs(gcs: &Gcs, port: u16, dir: &TempDir) -> crate::stores::Wishing {
    let config = StoresConfig {
        gcs: Some(gcs.config_at(port)),
        silence_max: Duration::from_secs(2),
        ..nothing(dir)
    };
    wishing(&config, dir, Kind::Gcs, Packing::Plain)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_fails_for_a_moment_is_asked_again() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let bodies = in_gcs(&gcs, gcs.port(), &dir);
    gcs.fail(500, 2);
    let stored = bodies.put(Source::Bytes(noise(10))).await.unwrap();
    gcs.fail(503, 2);
    assert!(bodies.get(&reference(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_goes_on_failing_may_be_asked_by_another_attempt() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let bodies = in_gcs(&gcs, gcs.port(), &dir);
    gcs.fail(500, u32::MAX);
    let error = bodies.put(Source::Bytes(noise(10))).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    assert!(error.is_retryable());
    assert!((2..10).contains(&gcs.requests()), "{}", gcs.requests());
    gcs.fail(403, u32::MAX);
    let error = bodies.put(Source::Bytes(noise(10))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        ("STORAGE_REFUSED", false)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_breaks_off_is_not_seen_and_is_taken_back() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let bodies = in_gcs(&gcs, gcs.port(), &dir);
    let body = noise(20 * MIB);
    let mut passing = Passing {
        left: body.clone(),
        at: 0,
        act: Some(|| gcs.fail(500, 12)),
        halts: false,
    };
    let error = bodies.put(Source::Stream(&mut passing)).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    assert_eq!(gcs.counts().1, 0);
    gcs.fail(500, 0);
    let stored = bodies.put(Source::Stream(&mut &body[..])).await.unwrap();
    assert!(bodies.get(&reference(&stored)).await.unwrap() == body);
    let left = std::fs::read_dir(dir.path().join("scratch"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "nothing waits any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_bucket_is_not_waited_for_without_end() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let proxy = Proxy::start(&format!("127.0.0.1:{}", gcs.port()));
    let bodies = in_gcs(&gcs, proxy.port(), &dir);
    let stored = bodies.put(Source::Bytes(noise(10))).await.unwrap();
    proxy.swallow_answers(true);
    let error = bodies.get(&reference(&stored)).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE", "{error:?}");
    proxy.swallow_answers(false);
    proxy.cut();
    assert!(bodies.get(&reference(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_says_the_secret_of_a_bucket() {
    let (s3, dir) = (S3::private(), TempDir::new().unwrap());
    let proxy = Proxy::start(&format!("127.0.0.1:{}", s3.port()));
    let config = StoresConfig {
        s3: Some(s3.config_at(proxy.port())),
        silence_max: Duration::from_secs(2),
        ..nothing(&dir)
    };
    let bodies = wishing(&config, &dir, Kind::S3, Packing::Plain);
    proxy.refuse(true);
    let error = bodies.put(Source::Bytes(noise(10))).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let mut said = format!("{config:?} {error:?} {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        said.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    assert!(!said.contains(s3.secret()), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_may_be_wiped_and_takes_bodies_again() {
    let (nats, dir) = (Nats::private(), TempDir::new().unwrap());
    let config = StoresConfig {
        nats: Some(nats_config(nats.url())),
        silence_max: Duration::from_secs(2),
        ..nothing(&dir)
    };
    for kind in [Kind::NatsKv, Kind::NatsObject] {
        let bodies = wishing(&config, &dir, kind, Packing::Plain);
        let stored = bodies.put(Source::Bytes(noise(10))).await.unwrap();
        nats.wipe();
        let error = bodies.get(&reference(&stored)).await.unwrap_err();
        assert_eq!(error.code(), "REFERENCE_NOT_AVAILABLE", "{error:?}");
        bodies.put(Source::Bytes(noise(10))).await.unwrap();
        assert!(bodies.get(&reference(&stored)).await.is_ok());
    }
    let kv = wishing(&config, &dir, Kind::NatsKv, Packing::Plain);
    let error = kv.put(Source::Bytes(noise(MIB + 1))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.is_retryable()),
        ("STORE_TOO_SMALL", false)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_store_takes_the_place_of_one_that_is_not_configured() {
    let dir = TempDir::new().unwrap();
    let config = nothing(&dir);
    for (kind, variable) in [
        (Kind::S3, Some("NOETL_STORAGE_S3_BUCKET")),
        (Kind::Gcs, Some("NOETL_STORAGE_GCS_BUCKET")),
        (Kind::NatsKv, Some("NOETL_STORAGE_NATS_URL")),
        (Kind::Pvc, Some("NOETL_STORAGE_DIR")),
        (Kind::Postgres, None),
    ] {
        let bodies = wishing(&config, &dir, kind, Packing::Auto);
        let default = wishing(&config, &dir, Kind::Auto, Packing::Auto);
        let stored = bodies.put(Source::Bytes(noise(10))).await.unwrap();
        let expected = default.put(Source::Bytes(noise(10))).await.unwrap();
        assert_eq!(stored.store, expected.store, "{}", kind.name());
        assert_eq!(bodies.get(&reference(&stored)).await.unwrap(), noise(10));
        let remedies = [config.missing(kind), bodies.stores.missing(kind)];
        for remedy in remedies {
            let names =
                |variable: &str| remedy.is_some_and(|remedy: &str| remedy.contains(variable));
            assert_eq!(
                remedy.is_some(),
                variable.is_some_and(names),
                "{}",
                kind.name()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_reads_through_its_server_what_it_cannot_reach() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let knowing = Arc::new(in_gcs(&gcs, gcs.port(), &dir).stores);
    let wish = Wish {
        kind: Kind::Gcs,
        compression: Packing::With(Codec::Zstd),
    };
    let body = Bytes::from(vec![b'x'; 3 * MIB]);
    let stored = knowing
        .put_as(Source::Bytes(body.clone()), &wish)
        .await
        .unwrap();
    assert_eq!((stored.store, stored.compression), ("gcs", Some("zstd")));
    let worker = Stores::open(&nothing(&dir), Home::Server(knowing)).unwrap();
    assert!(worker.get(&reference(&stored)).await.unwrap() == body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_bodies_go_to_nats_where_it_is_configured_and_others_to_the_tier() {
    let (nats, s3, dir) = (Nats::private(), S3::private(), TempDir::new().unwrap());
    let config = StoresConfig {
        nats: Some(nats_config(nats.url())),
        s3: Some(s3.config()),
        cloud_tier: Some(CloudTier::S3),
        ..nothing(&dir)
    };
    let bodies = wishing(&config, &dir, Kind::Auto, Packing::Auto);
    for (count, store) in [(MIB, "nats_kv"), (MIB + 1, "s3")] {
        let body = noise(count);
        let stored = bodies.put(Source::Stream(&mut &body[..])).await.unwrap();
        assert_eq!((stored.store, stored.compression), (store, None));
        let text = Bytes::from("text ".repeat(count / 5 + 1).into_bytes()).slice(..count);
        let stored = bodies.put(Source::Bytes(text.clone())).await.unwrap();
        assert_eq!((stored.store, stored.compression), (store, Some("zstd")));
        assert!(bodies.get(&reference(&stored)).await.unwrap() == text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_answers_while_the_bucket_is_away_and_is_not_needed() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let cache = dir.path().join("cache");
    let config = StoresConfig {
        cloud_tier: Some(CloudTier::Gcs),
        gcs: Some(gcs.config()),
        cache: Some(CacheConfig {
            dir: cache.clone(),
            bytes_max: 1 << 30,
        }),
        silence_max: Duration::from_secs(2),
        ..nothing(&dir)
    };
    for count in [10, 3 * MIB] {
        let bodies = wishing(&config, &dir, Kind::Disk, Packing::Plain);
        let body = noise(count);
        let stored = bodies.put(Source::Stream(&mut &body[..])).await.unwrap();
        gcs.fail(500, u32::MAX);
        let again = wishing(&config, &dir, Kind::Disk, Packing::Plain);
        assert!(
            again.get(&reference(&stored)).await.unwrap() == body,
            "after a restart"
        );
        gcs.fail(500, 0);
        std::fs::remove_dir_all(&cache).unwrap();
        assert!(bodies.stores.get(&reference(&stored)).await.unwrap() == body);
        let fresh = wishing(&config, &dir, Kind::Disk, Packing::Plain);
        assert!(fresh.get(&reference(&stored)).await.unwrap() == body);
    }
}

/// Result stores on a small disk of their own: files that an earlier put leaves for a moment cannot make space on it.
struct SmallDiskStores {
    disk: SmallDisk,
    config: StoresConfig,
    dir: TempDir,
}

impl SmallDiskStores {
    fn new(gcs: &Gcs) -> Self {
        let dir = TempDir::new().expect("a directory");
        let disk = SmallDisk::mount(dir.path());
        let config = StoresConfig {
            dir: Some(disk.path("shared")),
            gcs: Some(gcs.config()),
            scratch: disk.path("scratch"),
            ..nothing(&dir)
        };
        Self { disk, config, dir }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_bytes_until_there_is_space() {
    let gcs = Gcs::private();
    let small = SmallDiskStores::new(&gcs);
    let shared = wishing(&small.config, &small.dir, Kind::Pvc, Packing::Plain);
    let filler = small.disk.fill();
    let refused = shared.put(Source::Bytes(noise(1000))).await.unwrap_err();
    let refused = (refused.code(), refused.is_retryable());
    assert_eq!(refused, ("STORAGE_FULL", true));
    drop(filler);
    let stored = shared.put(Source::Bytes(noise(1000))).await.unwrap();
    assert!(shared.get(&reference(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_makes_a_stream_wait() {
    let gcs = Gcs::private();
    for (kind, count) in [
        (Kind::Pvc, 1000),
        (Kind::Pvc, 3 * MIB),
        (Kind::Gcs, 3 * MIB),
    ] {
        let small = SmallDiskStores::new(&gcs);
        let bodies = wishing(&small.config, &small.dir, kind, Packing::Plain);
        let (body, filler) = (noise(count), small.disk.fill());
        let mut stream = &body[..];
        let (waits, _guard) = SpaceWaits::watch();
        let mut putting = std::pin::pin!(bodies.put(Source::Stream(&mut stream)));
        let begin = async {
            tokio::select! {
                biased;
                stored = &mut putting => panic!("{}, {count}: {stored:?}", kind.name()),
                () = waits.notified() => {}
            }
        };
        tokio::time::timeout(WAIT_MAX, begin)
            .await
            .expect("the stream waits for space");
        drop(filler);
        let stored = tokio::time::timeout(WAIT_MAX, putting).await;
        let stored = stored.expect("there is space again").unwrap();
        assert!(bodies.get(&reference(&stored)).await.unwrap() == body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_stream_to_a_bucket_needs_no_disk() {
    let gcs = Gcs::private();
    let small = SmallDiskStores::new(&gcs);
    let bodies = wishing(&small.config, &small.dir, Kind::Gcs, Packing::Plain);
    let (body, _filler) = (noise(1000), small.disk.fill());
    let mut stream = &body[..];
    let stored = bodies.put(Source::Stream(&mut stream)).await.unwrap();
    assert!(bodies.get(&reference(&stored)).await.unwrap() == body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_is_killed_leaves_no_object_and_nothing_that_waits() {
    let (gcs, dir) = (Gcs::private(), TempDir::new().unwrap());
    let bodies = in_gcs(&gcs, gcs.port(), &dir);
    let halted = Arc::new(Notify::new());
    let told = halted.clone();
    let putting = tokio::spawn(async move {
        let mut passing = Passing {
            left: noise(20 * MIB),
            at: MIB,
            act: Some(move || told.notify_one()),
            halts: true,
        };
        bodies.put(Source::Stream(&mut passing)).await
    });
    halted.notified().await;
    putting.abort();
    assert!(putting.await.unwrap_err().is_cancelled());
    assert_eq!(gcs.counts(), (0, 0));
    let left = std::fs::read_dir(dir.path().join("scratch")).unwrap();
    assert_eq!(left.count(), 0);
}
