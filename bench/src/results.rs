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
use results::contract::reference;
use results::{Bodies, Home, Kind, Local, Packing, Source, Stores, StoresConfig, Wish};
use tempfile::TempDir;
use tests::peers::S3;

use crate::figure::{Figure, Scale};
use crate::raw::now;

const MIB: usize = 1024 * 1024;
/// Number of 8 MiB parts in one GiB.
const PARTS: u32 = 128;
const SMALL_BYTES: usize = 64 * 1024;
const SMALL_BODIES: u32 = 6_000;
/// Number of small bodies in flight, like the slots of a worker.
const AT_ONCE: usize = 32;
const OBJECTS: u32 = 96;

/// Measures everything.
pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = large(scale.of(PARTS)).await?;
    figures.push(small(scale.of(SMALL_BODIES)).await?);
    figures.extend(bucket(scale.of(OBJECTS)).await?);
    Ok(figures)
}

/// Incompressible bytes, different for each number.
fn noise(count: usize, number: u32) -> Bytes {
    let mut state =
        0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(number) + 1).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let words = std::iter::repeat_with(next).take(count / 8);
    words.flatten().collect()
}

fn stores(dir: &TempDir, s3: Option<&S3>) -> anyhow::Result<Stores> {
    let config = StoresConfig {
        cloud_tier: None,
        cache: None,
        s3: s3.map(S3::config),
        gcs: None,
        nats: None,
        dir: None,
        silence_max: Duration::from_secs(60),
        scratch: dir.path().join("scratch"),
    };
    let home = Home::Own(Arc::new(Local::open(dir.path())?));
    Ok(Stores::open(&config, home)?)
}

fn wish(kind: Kind) -> Wish {
    Wish {
        kind,
        compression: Packing::Auto,
    }
}

/// Megabytes per second.
fn speed(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Writes a part like a careful program: hashes, writes and flushes it.
fn copy(part: &Bytes, file: &Path) -> anyhow::Result<String> {
    let hash = results::sha256(part);
    let mut file = File::create(file)?;
    file.write_all(part)?;
    file.sync_all()?;
    Ok(hash)
}

async fn large(parts: u32) -> anyhow::Result<Vec<Figure>> {
    let dir = TempDir::new_in(".")?;
    let bodies = stores(&dir, None)?;
    let total = u64::from(parts) * 8 * MIB as u64;
    let (mut ours, mut raw) = (Duration::ZERO, Duration::ZERO);
    let mut stored = Vec::new();
    for number in 0..parts {
        let part = noise(8 * MIB, number);
        // Alternates, so that both use the disk in the same state.
        let begin = now();
        copy(&part, &dir.path().join(format!("raw-{number}")))?;
        raw += begin.elapsed();
        let begin = now();
        stored.push(
            bodies
                .put_as(Source::Bytes(part), &wish(Kind::Auto))
                .await?,
        );
        ours += begin.elapsed();
    }
    let put = Figure {
        work: "results: 1 GB in 8 MiB parts into the local store".to_owned(),
        value: speed(total, ours),
        unit: "MB/s",
        reach: "at least 0.5 x hash, write and flush",
        raw: Some(speed(total, raw)),
    };
    let (mut ours, mut raw) = (Duration::ZERO, Duration::ZERO);
    for (number, stored) in stored.iter().enumerate() {
        let begin = now();
        let part = std::fs::read(dir.path().join(format!("raw-{number}")))?;
        anyhow::ensure!(results::sha256(&part) == stored.sha256);
        raw += begin.elapsed();
        let begin = now();
        bodies.get(&reference(stored)).await?;
        ours += begin.elapsed();
    }
    let get = Figure {
        work: "results: 1 GB in 8 MiB parts out of the local store".to_owned(),
        value: speed(total, ours),
        unit: "MB/s",
        reach: "at least 0.5 x read and hash",
        raw: Some(speed(total, raw)),
    };
    Ok(vec![put, get])
}

async fn small(count: u32) -> anyhow::Result<Figure> {
    let dir = TempDir::new_in(".")?;
    let local = stores(&dir, None)?;
    let parts: Vec<Bytes> = (0..count)
        .map(|number| noise(SMALL_BYTES, number))
        .collect();
    let begin = now();
    let alone = count.min(500);
    for (number, body) in parts.iter().take(alone as usize).enumerate() {
        copy(body, &dir.path().join(format!("raw-{number}")))?;
    }
    let raw = f64::from(alone) / begin.elapsed().as_secs_f64();
    let begin = now();
    let hands = (0..AT_ONCE).map(|hand| {
        let (local, parts) = (&local, &parts);
        async move {
            for body in parts.iter().skip(hand).step_by(AT_ONCE) {
                let source = Source::Bytes(body.clone());
                local.put_as(source, &wish(Kind::Auto)).await?;
            }
            Ok::<_, anyhow::Error>(())
        }
    });
    try_join_all(hands).await?;
    Ok(Figure {
        work: "results: 64 KiB bodies into the local store, 32 at once".to_owned(),
        value: f64::from(count) / begin.elapsed().as_secs_f64(),
        unit: "/s",
        reach: "at least 3 000; raw: one at a time, hashed, written and flushed",
        raw: Some(raw),
    })
}

async fn bucket(objects: u32) -> anyhow::Result<Vec<Figure>> {
    let (s3, dir) = (S3::private(), TempDir::new()?);
    let bodies = stores(&dir, Some(&s3))?;
    let client: Arc<dyn ObjectStore> = Arc::new(
        AmazonS3Builder::new()
            .with_bucket_name(S3::BUCKET)
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
        let body = noise(4 * MIB, number);
        let path = object_store::path::Path::from(format!("raw/{number}"));
        let begin = now();
        client.put(&path, body.clone().into()).await?;
        took[0] += begin.elapsed();
        let begin = now();
        let stored = bodies.put_as(Source::Bytes(body), &wish(Kind::S3)).await?;
        took[1] += begin.elapsed();
        let begin = now();
        client.get(&path).await?.bytes().await?;
        took[2] += begin.elapsed();
        let begin = now();
        bodies.get(&reference(&stored)).await?;
        took[3] += begin.elapsed();
    }
    let [raw_put, put, raw_get, get] = took.map(|took| speed(total, took));
    let figure = |work: &str, value, raw| Figure {
        work: format!("results: 4 MiB bodies {work} S3"),
        value,
        unit: "MB/s",
        reach: "at least 0.8 x the bare client",
        raw: Some(raw),
    };
    Ok(vec![
        figure("into", put, raw_put),
        figure("out of", get, raw_get),
    ])
}
