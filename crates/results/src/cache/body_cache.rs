//! The cache in memory and on disk.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use bytes::Bytes;
use model::cache::BoundedCache;
use sha2::{Digest as _, Sha256};

use super::rate::ByteRateLimit;
use crate::Error;
use crate::config::CacheConfig;
use crate::files::{CHUNK_BYTES, disk_error, remove_stale_files, run_blocking};
use crate::private_dir::make_private_dir;
use crate::staged_body::{StagedBody, StagedContent};
use crate::temp_body_file::TempBodyFile;

/// Bodies up to this size are small: they use the pool `meta` and are also cached in memory.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of the cache in memory.
const MEMORY_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Fraction of the disk cache for small bodies: one part in this many.
const META_SHARE: u64 = 16;
/// Maximum number of bytes written to the disk cache per second.
const ADMITTED_BYTES_PER_SECOND: u64 = 256 * 1024 * 1024;

/// Cache of bodies.
#[derive(Clone)]
pub(crate) struct BodyCache {
    dir: Arc<PathBuf>,
    tiers: Arc<Mutex<CacheTiers>>,
}

struct CacheTiers {
    memory: BoundedCache<String, Bytes>,
    meta: BoundedCache<String, ()>,
    data: BoundedCache<String, ()>,
    rate_limit: ByteRateLimit,
}

/// A cache hit.
pub(super) enum CacheHit {
    Memory(Bytes),
    /// A file whose content was checked, and its size.
    File(File, u64),
}

impl CacheTiers {
    fn tier_for(&mut self, bytes: u64) -> (&'static str, &mut BoundedCache<String, ()>) {
        if bytes <= SMALL_BYTES_MAX {
            ("meta", &mut self.meta)
        } else {
            ("data", &mut self.data)
        }
    }
}

impl BodyCache {
    /// Indexes the files that an earlier process left. Deletes files that are not cache entries.
    pub(crate) fn open(config: &CacheConfig) -> Result<Self, Error> {
        let dir = &config.dir;
        let meta_max = config.bytes_max / META_SHARE;
        let mut pools = CacheTiers {
            memory: BoundedCache::new(MEMORY_BYTES_MAX),
            meta: BoundedCache::new(meta_max),
            data: BoundedCache::new(config.bytes_max - meta_max),
            rate_limit: ByteRateLimit::new(ADMITTED_BYTES_PER_SECOND),
        };
        make_private_dir(dir).map_err(|error| disk_error(dir, error))?;
        for part in ["new", "meta", "data"] {
            let part = dir.join(part);
            make_private_dir(&part).map_err(|error| disk_error(&part, error))?;
        }
        remove_stale_files(&dir.join("new"));
        index_files(&dir.join("meta"), &mut pools.meta);
        index_files(&dir.join("data"), &mut pools.data);
        Ok(Self {
            dir: Arc::new(dir.clone()),
            tiers: Arc::new(Mutex::new(pools)),
        })
    }

    /// Directory for bodies that are not checked yet.
    pub(super) fn staging_dir(&self) -> PathBuf {
        self.dir.join("new")
    }

    /// Whether a body of this size fits into the cache.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        let mut pools = self.lock_tiers();
        pools.tier_for(bytes).1.fits(bytes)
    }

    /// Returns the body with this hash and size, checked.
    pub(super) async fn find(&self, sha256: &str, bytes: u64) -> Option<CacheHit> {
        let path = {
            let mut pools = self.lock_tiers();
            if let Some(body) = pools.memory.get(sha256) {
                return Some(CacheHit::Memory(body));
            }
            let (part, pool) = pools.tier_for(bytes);
            pool.get(sha256)?;
            self.dir.join(part).join(sha256)
        };
        let expected = sha256.to_owned();
        let opened = run_blocking(move || open_verified(&path, &expected)).await;
        let opened = opened.ok().flatten().filter(|(_, opened)| *opened == bytes);
        if opened.is_none() {
            self.remove(sha256, bytes);
        }
        opened.map(|(file, bytes)| CacheHit::File(file, bytes))
    }

    /// Adds a body.
    pub(super) async fn insert_bytes(&self, name: &str, body: Bytes) {
        let bytes = body.len() as u64;
        if bytes <= SMALL_BYTES_MAX {
            self.lock_tiers().memory.insert(name.to_owned(), body.clone(), bytes);
        }
        if !self.may_insert(bytes) {
            return;
        }
        let (cache, name) = (self.clone(), name.to_owned());
        let written = run_blocking(move || {
            let mut draft = TempBodyFile::create(&cache.staging_dir())?;
            draft.write(&body)?;
            cache.insert_file(&name, &draft)
        });
        // If the cache cannot be written, later lookups miss.
        let _ = written.await;
    }

    /// Adds a staged body; moves its file if it has one.
    pub(super) async fn insert_staged(&self, staged: StagedBody) {
        let draft = match staged.content {
            StagedContent::Memory(body) => return self.insert_bytes(&staged.sha256, body).await,
            StagedContent::File(draft) => draft,
        };
        if !self.may_insert(staged.bytes) {
            return;
        }
        let cache = self.clone();
        let _ = run_blocking(move || cache.insert_file(&staged.sha256, &draft)).await;
    }

    fn may_insert(&self, bytes: u64) -> bool {
        let mut pools = self.lock_tiers();
        pools.tier_for(bytes).1.fits(bytes) && pools.rate_limit.try_acquire(bytes)
    }

    fn insert_file(&self, sha256: &str, draft: &TempBodyFile) -> Result<(), Error> {
        let mut pools = self.lock_tiers();
        let (part, pool) = pools.tier_for(draft.bytes);
        let dir = self.dir.join(part);
        draft.move_to(&dir.join(sha256))?;
        for evicted in pool.insert(sha256.to_owned(), (), draft.bytes) {
            let _ = fs::remove_file(dir.join(evicted));
        }
        Ok(())
    }

    /// Removes a body.
    pub(super) fn remove(&self, sha256: &str, bytes: u64) {
        let mut pools = self.lock_tiers();
        pools.memory.remove(sha256);
        let (part, pool) = pools.tier_for(bytes);
        pool.remove(sha256);
        let _ = fs::remove_file(self.dir.join(part).join(sha256));
    }

    fn lock_tiers(&self) -> MutexGuard<'_, CacheTiers> {
        self.tiers.lock().expect("the lock is not poisoned")
    }
}

/// Indexes the files in a pool's directory, oldest first; each file is checked when it is read.
fn index_files(dir: &Path, pool: &mut BoundedCache<String, ()>) {
    let mut files: Vec<(SystemTime, String, u64)> = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file);
        match meta.and_then(|meta| Some((meta.modified().ok()?, meta.len()))) {
            Some((modified, bytes)) if name.len() == 64 => files.push((modified, name, bytes)),
            _ => {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    files.sort();
    for (_, name, bytes) in files {
        // The cache may have been larger before.
        if !pool.fits(bytes) {
            let _ = fs::remove_file(dir.join(name));
            continue;
        }
        for evicted in pool.insert(name, (), bytes) {
            let _ = fs::remove_file(dir.join(evicted));
        }
    }
}

fn open_verified(path: &Path, expected: &str) -> Option<(File, u64)> {
    let mut file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk).ok()?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        bytes += read as u64;
    }
    let is_it = hex::encode(hash.finalize()) == expected;
    is_it.then_some((file, bytes))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::contract::noise_bytes;
    use crate::sha256;

    const MIB: u64 = 1024 * 1024;

    fn open_cache(dir: &TempDir, mebibytes: u64) -> BodyCache {
        let config = CacheConfig {
            dir: dir.path().to_owned(),
            bytes_max: mebibytes * MIB,
        };
        BodyCache::open(&config).unwrap()
    }

    fn count_files(dir: &TempDir, part: &str) -> usize {
        fs::read_dir(dir.path().join(part)).unwrap().count()
    }

    async fn insert_bodies(cache: &BodyCache, count: usize) -> (String, u64) {
        let body = noise_bytes(count);
        let name = sha256(&body);
        cache.insert_bytes(&name, body).await;
        (name, count as u64)
    }

    #[tokio::test]
    async fn small_and_large_bodies_do_not_drive_each_other_out() {
        let dir = TempDir::new().unwrap();
        let cache = open_cache(&dir, 16);
        let (small, bytes) = insert_bodies(&cache, 100).await;
        for count in 0..20 {
            insert_bodies(&cache, 1_500_000 + count).await;
        }
        assert!(cache.find(&small, bytes).await.is_some());
        assert_eq!(count_files(&dir, "meta"), 1);
        assert!((8..=10).contains(&count_files(&dir, "data")));
        assert!(!cache.has_room_for(4 * MIB), "one body must not fill the cache");
    }

    #[tokio::test]
    async fn cached_bodies_survive_a_restart_and_a_damaged_one_is_a_miss() {
        let dir = TempDir::new().unwrap();
        let (large, bytes) = insert_bodies(&open_cache(&dir, 64), 100_000).await;
        let (small, few) = insert_bodies(&open_cache(&dir, 64), 10).await;
        fs::write(dir.path().join("data/strange"), "x").unwrap();
        let cache = open_cache(&dir, 64);
        assert_eq!(count_files(&dir, "data"), 1, "foreign files are deleted");
        assert!(matches!(cache.find(&large, bytes).await, Some(CacheHit::File(_, n)) if n == bytes));
        assert!(cache.find(&small, few).await.is_some());
        fs::write(dir.path().join("data").join(&large), "damaged").unwrap();
        assert!(cache.find(&large, bytes).await.is_none());
        assert_eq!(count_files(&dir, "data"), 0);
    }

    #[tokio::test]
    async fn a_cache_that_was_emptied_takes_bodies_again() {
        let dir = TempDir::new().unwrap();
        let cache = open_cache(&dir, 64);
        let (evicted, bytes) = insert_bodies(&cache, 100_000).await;
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(cache.find(&evicted, bytes).await.is_none());
        let (large, bytes) = insert_bodies(&cache, 100_000).await;
        assert!(matches!(cache.find(&large, bytes).await, Some(CacheHit::File(..))));
    }

    #[tokio::test]
    async fn a_cache_that_cannot_be_written_misses() {
        let dir = TempDir::new().unwrap();
        let cache = open_cache(&dir, 64);
        fs::remove_dir_all(dir.path()).unwrap();
        // A file at the path prevents the directory from being created again, even for root.
        fs::write(dir.path(), "").unwrap();
        let (large, bytes) = insert_bodies(&cache, 100_000).await;
        assert!(cache.find(&large, bytes).await.is_none());
        fs::remove_file(dir.path()).unwrap();
        let (small, few) = insert_bodies(&cache, 10).await;
        assert!(matches!(cache.find(&small, few).await, Some(CacheHit::Memory(_))));
    }
}
