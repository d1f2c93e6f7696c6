//! Throughput of the result stores, next to the disk and the bare client in the same run.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, ObjectStoreExt as _};
use results::contract::reference_to;
use results::{
    BodySource, BodyStore, Compression, DirBodyStore, HomeStore, StorageOptions, StoreKind, StoreRouter, StoresConfig,
};
use tempfile::TempDir;
use tests::peers::S3Server;

use crate::figure::{Figure, Scale};
use crate::raw_limits::now;

const MIB: usize = 1024 * 1024;
/// Number of 8 MiB parts in one GiB.
const PARTS: u32 = 128;
const SMALL_BYTES: usize = 64 * 1024;
const SMALL_BODIES: u32 = 6_000;
/// Number of small bodies in flight, like the slots of a worker.
const CONCURRENT_MAX: usize = 32;
const OBJECTS: u32 = 96;

/// Measures everything.
pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = measure_large(scale.scaled(PARTS)).await?;
    figures.push(measure_small(scale.scaled(SMALL_BODIES)).await?);
    figures.extend(measure_bucket(scale.scaled(OBJECTS)).await?);
    Ok(figures)
}

/// Incompressible bytes, different for each number.
fn random_bytes(count: usize, number: u32) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(number) + 1).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let blocks = std::iter::repeat_with(next).take(count / 8);
    blocks.flatten().collect()
}

fn open_stores(dir: &TempDir, s3: Option<&S3Server>) -> anyhow::Result<StoreRouter> {
    let config = StoresConfig {
        cloud_tier: None,
        cache: None,
        s3: s3.map(S3Server::config),
        gcs: None,
        nats: None,
        dir: None,
        silence_max: Duration::from_secs(60),
        scratch: dir.path().join("scratch"),
    };
    let home_store = HomeStore::Own(Arc::new(DirBodyStore::open(dir.path())?));
    Ok(StoreRouter::open(&config, home_store)?)
}

fn storage_options(kind: StoreKind) -> StorageOptions {
    StorageOptions {
        kind,
        compression: Compression::Auto,
    }
}

/// Megabytes per second.
fn megabytes_per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Writes a part like a careful program: hashes, writes and flushes it.
fn copy_part(part: &Bytes, file: &Path) -> anyhow::Result<String> {
    let hash = results::sha256(part);
    let mut file = File::create(file)?;
    file.write_all(part)?;
    file.sync_all()?;
    Ok(hash)
}

async fn measure_large(parts: u32) -> anyhow::Result<Vec<Figure>> {
    let dir = TempDir::new_in(".")?;
    let bodies = open_stores(&dir, None)?;
    let total = u64::from(parts) * 8 * MIB as u64;
    let (mut with_noetl, mut raw) = (Duration::ZERO, Duration::ZERO);
    let mut stored = Vec::new();
    for number in 0..parts {
        let part = random_bytes(8 * MIB, number);
        // Alternates, so that both use the disk in the same state.
        let start = now();
        copy_part(&part, &dir.path().join(format!("raw-{number}")))?;
        raw += start.elapsed();
        let start = now();
        stored.push(
            bodies
                .put_with(BodySource::Bytes(part), &storage_options(StoreKind::Auto))
                .await?,
        );
        with_noetl += start.elapsed();
    }
    let put = Figure {
        workload: "results: 1 GB in 8 MiB parts into the local store".to_owned(),
        value: megabytes_per_second(total, with_noetl),
        unit: "MB/s",
        target: "at least 0.5 x hash, write and flush",
        raw_limit: Some(megabytes_per_second(total, raw)),
    };
    let (mut with_noetl, mut raw) = (Duration::ZERO, Duration::ZERO);
    for (number, stored) in stored.iter().enumerate() {
        let start = now();
        let part = std::fs::read(dir.path().join(format!("raw-{number}")))?;
        anyhow::ensure!(results::sha256(&part) == stored.sha256);
        raw += start.elapsed();
        let start = now();
        bodies.get(&reference_to(stored)).await?;
        with_noetl += start.elapsed();
    }
    let get = Figure {
        workload: "results: 1 GB in 8 MiB parts out of the local store".to_owned(),
        value: megabytes_per_second(total, with_noetl),
        unit: "MB/s",
        target: "at least 0.5 x read and hash",
        raw_limit: Some(megabytes_per_second(total, raw)),
    };
    Ok(vec![put, get])
}

async fn measure_small(count: u32) -> anyhow::Result<Figure> {
    let dir = TempDir::new_in(".")?;
    let local = open_stores(&dir, None)?;
    let parts: Vec<Bytes> = (0..count).map(|number| random_bytes(SMALL_BYTES, number)).collect();
    let start = now();
    let raw_count = count.min(500);
    for (number, body) in parts.iter().take(raw_count as usize).enumerate() {
        copy_part(body, &dir.path().join(format!("raw-{number}")))?;
    }
    let raw = f64::from(raw_count) / start.elapsed().as_secs_f64();
    let start = now();
    let clients = (0..CONCURRENT_MAX).map(|client| {
        let (local, parts) = (&local, &parts);
        async move {
            for body in parts.iter().skip(client).step_by(CONCURRENT_MAX) {
                let source = BodySource::Bytes(body.clone());
                local.put_with(source, &storage_options(StoreKind::Auto)).await?;
            }
            Ok::<_, anyhow::Error>(())
        }
    });
    try_join_all(clients).await?;
    Ok(Figure {
        workload: "results: 64 KiB bodies into the local store, 32 at once".to_owned(),
        value: f64::from(count) / start.elapsed().as_secs_f64(),
        unit: "/s",
        target: "at least 3 000; raw: one at a time, hashed, written and flushed",
        raw_limit: Some(raw),
    })
}

async fn measure_bucket(objects: u32) -> anyhow::Result<Vec<Figure>> {
    let (s3, dir) = (S3Server::private(), TempDir::new()?);
    let bodies = open_stores(&dir, Some(&s3))?;
    let client: Arc<dyn ObjectStore> = Arc::new(
        AmazonS3Builder::new()
            .with_bucket_name(S3Server::BUCKET)
            .with_endpoint(s3.url())
            .with_region("us-east-1")
            .with_access_key_id("tests")
            .with_secret_access_key(s3.secret())
            .with_allow_http(true)
            .build()?,
    );
    let total = u64::from(objects) * 4 * MIB as u64;
    let mut took = [Duration::ZERO; 4];
    for number in 0..objects {
        let body = random_bytes(4 * MIB, number);
        let path = object_store::path::Path::from(format!("raw/{number}"));
        let start = now();
        client.put(&path, body.clone().into()).await?;
        took[0] += start.elapsed();
        let start = now();
        let stored = bodies
            .put_with(BodySource::Bytes(body), &storage_options(StoreKind::S3))
            .await?;
        took[1] += start.elapsed();
        let start = now();
        client.get(&path).await?.bytes().await?;
        took[2] += start.elapsed();
        let start = now();
        bodies.get(&reference_to(&stored)).await?;
        took[3] += start.elapsed();
    }
    let [raw_put, put, raw_get, get] = took.map(|took| megabytes_per_second(total, took));
    let figure = |work: &str, value, raw| Figure {
        workload: format!("results: 4 MiB bodies {work} S3"),
        value,
        unit: "MB/s",
        target: "at least 0.8 x the bare client",
        raw_limit: Some(raw),
    };
    Ok(vec![figure("into", put, raw_put), figure("out of", get, raw_get)])
}
