//! The cache in memory and on disk.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use bytes::Bytes;
use model::cache::BoundedCache;
use sha2::{Digest as _, Sha256};

use super::rate::Rate;
use crate::Error;
use crate::config::CacheConfig;
use crate::draft::Draft;
use crate::files::{CHUNK_BYTES, in_turn, name, sweep};
use crate::private::make_private_dir;
use crate::stage::{Held, Staged};

/// Bodies up to this size are small: they use the pool `meta` and are also cached in memory.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of the cache in memory.
const MEMORY_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Fraction of the disk cache for small bodies: one part in this many.
const META_SHARE: u64 = 16;
/// Maximum number of bytes written to the disk cache per second.
const ADMITTED_PER_SECOND: u64 = 256 * 1024 * 1024;

/// Cache of bodies.
#[derive(Clone)]
pub(crate) struct Cache {
    dir: Arc<PathBuf>,
    pools: Arc<Mutex<Pools>>,
}

struct Pools {
    memory: BoundedCache<String, Bytes>,
    meta: BoundedCache<String, ()>,
    data: BoundedCache<String, ()>,
    rate: Rate,
}

/// A cache hit.
pub(super) enum Found {
    Memory(Bytes),
    /// A file whose content was checked, and its size.
    File(File, u64),
}

impl Pools {
    fn of(&mut self, bytes: u64) -> (&'static str, &mut BoundedCache<String, ()>) {
        if bytes <= SMALL_BYTES_MAX {
            ("meta", &mut self.meta)
        } else {
            ("data", &mut self.data)
        }
    }
}

impl Cache {
    /// Indexes the files that an earlier process left. Deletes files that are not cache entries.
    pub(crate) fn open(config: &CacheConfig) -> Result<Self, Error> {
        let dir = &config.dir;
        let meta_max = config.bytes_max / META_SHARE;
        let mut pools = Pools {
            memory: BoundedCache::new(MEMORY_BYTES_MAX),
            meta: BoundedCache::new(meta_max),
            data: BoundedCache::new(config.bytes_max - meta_max),
            rate: Rate::new(ADMITTED_PER_SECOND),
        };
        make_private_dir(dir).map_err(|error| name(dir, error))?;
        for part in ["new", "meta", "data"] {
            let part = dir.join(part);
            make_private_dir(&part).map_err(|error| name(&part, error))?;
        }
        sweep(&dir.join("new"));
        recover(&dir.join("meta"), &mut pools.meta);
        recover(&dir.join("data"), &mut pools.data);
        Ok(Self {
            dir: Arc::new(dir.clone()),
            pools: Arc::new(Mutex::new(pools)),
        })
    }

    /// Directory for bodies that are not checked yet.
    pub(super) fn fresh(&self) -> PathBuf {
        self.dir.join("new")
    }

    /// Whether a body of this size fits into the cache.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        let mut pools = self.pools();
        pools.of(bytes).1.fits(bytes)
    }

    /// Returns the body with this hash and size, checked.
    pub(super) async fn find(&self, sha256: &str, bytes: u64) -> Option<Found> {
        let path = {
            let mut pools = self.pools();
            if let Some(body) = pools.memory.get(sha256) {
                return Some(Found::Memory(body));
            }
            let (part, pool) = pools.of(bytes);
            pool.get(sha256)?;
            self.dir.join(part).join(sha256)
        };
        let expected = sha256.to_owned();
        let found = in_turn(move || checked(&path, &expected)).await;
        let found = found.ok().flatten().filter(|(_, found)| *found == bytes);
        if found.is_none() {
            self.remove(sha256, bytes);
        }
        found.map(|(file, bytes)| Found::File(file, bytes))
    }

    /// Adds a body.
    pub(super) async fn admit(&self, name: &str, body: Bytes) {
        let bytes = body.len() as u64;
        if bytes <= SMALL_BYTES_MAX {
            self.pools()
                .memory
                .insert(name.to_owned(), body.clone(), bytes);
        }
        if !self.may_enter(bytes) {
            return;
        }
        let (here, name) = (self.clone(), name.to_owned());
        let written = in_turn(move || {
            let mut draft = Draft::begin(&here.fresh())?;
            draft.write(&body)?;
            here.adopt_draft(&name, &draft)
        });
        // If the cache cannot be written, later lookups miss.
        let _ = written.await;
    }

    /// Adds a staged body; moves its file if it has one.
    pub(super) async fn adopt(&self, staged: Staged) {
        let draft = match staged.held {
            Held::Memory(body) => return self.admit(&staged.sha256, body).await,
            Held::File(draft) => draft,
        };
        if !self.may_enter(staged.bytes) {
            return;
        }
        let here = self.clone();
        let _ = in_turn(move || here.adopt_draft(&staged.sha256, &draft)).await;
    }

    fn may_enter(&self, bytes: u64) -> bool {
        let mut pools = self.pools();
        pools.of(bytes).1.fits(bytes) && pools.rate.admits(bytes)
    }

    fn adopt_draft(&self, sha256: &str, draft: &Draft) -> Result<(), Error> {
        let mut pools = self.pools();
        let (part, pool) = pools.of(draft.bytes);
        let dir = self.dir.join(part);
        draft.move_to(&dir.join(sha256))?;
        for gone in pool.insert(sha256.to_owned(), (), draft.bytes) {
            let _ = fs::remove_file(dir.join(gone));
        }
        Ok(())
    }

    /// Removes a body.
    pub(super) fn remove(&self, sha256: &str, bytes: u64) {
        let mut pools = self.pools();
        pools.memory.remove(sha256);
        let (part, pool) = pools.of(bytes);
        pool.remove(sha256);
        let _ = fs::remove_file(self.dir.join(part).join(sha256));
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().expect("the lock is not poisoned")
    }
}

/// Indexes the files in a pool's directory, oldest first; each file is checked when it is read.
fn recover(dir: &Path, pool: &mut BoundedCache<String, ()>) {
    let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file);
        match meta.and_then(|meta| Some((meta.modified().ok()?, meta.len()))) {
            Some((modified, bytes)) if name.len() == 64 => found.push((modified, name, bytes)),
            _ => {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    found.sort();
    for (_, name, bytes) in found {
        // The cache may have been larger before.
        if !pool.fits(bytes) {
            let _ = fs::remove_file(dir.join(name));
            continue;
        }
        for gone in pool.insert(name, (), bytes) {
            let _ = fs::remove_file(dir.join(gone));
        }
    }
}

fn checked(path: &Path, expected: &str) -> Option<(File, u64)> {
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
    use crate::contract::noise;
    use crate::sha256;

    const MIB: u64 = 1024 * 1024;

    fn cache(dir: &TempDir, mebibytes: u64) -> Cache {
        let config = CacheConfig {
            dir: dir.path().to_owned(),
            bytes_max: mebibytes * MIB,
        };
        Cache::open(&config).unwrap()
    }

    fn files(dir: &TempDir, part: &str) -> usize {
        fs::read_dir(dir.path().join(part)).unwrap().count()
    }

    async fn admit(cache: &Cache, count: usize) -> (String, u64) {
        let body = noise(count);
        let name = sha256(&body);
        cache.admit(&name, body).await;
        (name, count as u64)
    }

    #[tokio::test]
    async fn small_and_large_bodies_do_not_drive_each_other_out() {
        let dir = TempDir::new().unwrap();
        let cache = cache(&dir, 16);
        let (small, bytes) = admit(&cache, 100).await;
        for count in 0..20 {
            admit(&cache, 1_500_000 + count).await;
        }
        assert!(cache.find(&small, bytes).await.is_some());
        assert_eq!(files(&dir, "meta"), 1);
        assert!((8..=10).contains(&files(&dir, "data")));
        assert!(!cache.fits(4 * MIB), "one body must not fill the cache");
    }

    #[tokio::test]
    async fn what_was_at_hand_is_so_after_a_restart_and_damage_is_a_miss() {
        let dir = TempDir::new().unwrap();
        let (large, bytes) = admit(&cache(&dir, 64), 100_000).await;
        let (small, few) = admit(&cache(&dir, 64), 10).await;
        fs::write(dir.path().join("data/strange"), "x").unwrap();
        let cache = cache(&dir, 64);
        assert_eq!(files(&dir, "data"), 1, "foreign files are deleted");
        assert!(matches!(cache.find(&large, bytes).await, Some(Found::File(_, n)) if n == bytes));
        assert!(cache.find(&small, few).await.is_some());
        fs::write(dir.path().join("data").join(&large), "damaged").unwrap();
        assert!(cache.find(&large, bytes).await.is_none());
        assert_eq!(files(&dir, "data"), 0);
    }

    #[tokio::test]
    async fn a_cache_that_was_emptied_takes_bodies_again() {
        let dir = TempDir::new().unwrap();
        let cache = cache(&dir, 64);
        let (gone, bytes) = admit(&cache, 100_000).await;
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(cache.find(&gone, bytes).await.is_none());
        let (large, bytes) = admit(&cache, 100_000).await;
        assert!(matches!(
            cache.find(&large, bytes).await,
            Some(Found::File(..))
        ));
    }

    #[tokio::test]
    async fn a_cache_that_cannot_be_written_misses() {
        let dir = TempDir::new().unwrap();
        let cache = cache(&dir, 64);
        fs::remove_dir_all(dir.path()).unwrap();
        // A file at the path prevents the directory from being created again, even for root.
        fs::write(dir.path(), "").unwrap();
        let (large, bytes) = admit(&cache, 100_000).await;
        assert!(cache.find(&large, bytes).await.is_none());
        fs::remove_file(dir.path()).unwrap();
        let (small, few) = admit(&cache, 10).await;
        assert!(matches!(
            cache.find(&small, few).await,
            Some(Found::Memory(_))
        ));
    }
}
