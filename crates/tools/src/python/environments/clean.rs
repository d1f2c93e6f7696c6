//! Removing environments that nobody uses: the ones not used for long, and the oldest of too many bytes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::python::environments::build::SIZE;

/// What may stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// One that was not used for this long goes.
    pub(super) unused_max: Duration,
    /// Beyond so many bytes together, the ones used longest ago go.
    pub(super) bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            unused_max: Duration::from_secs(30 * 24 * 60 * 60),
            bytes_max: 20 * 1024 * 1024 * 1024,
        }
    }
}

struct Found {
    home: PathBuf,
    lock: PathBuf,
    used: SystemTime,
    bytes: u64,
}

/// Removes what goes beyond the bounds and is not in use. What cannot be removed now is for the next time.
pub(super) fn clean(dir: &Path, now: SystemTime, bounds: Bounds) {
    let mut found = found(dir);
    found.sort_by_key(|one| one.used);
    let mut bytes: u64 = found.iter().map(|one| one.bytes).sum();
    for one in found {
        let is_old = now.duration_since(one.used).unwrap_or_default() > bounds.unused_max;
        if (is_old || bytes > bounds.bytes_max) && remove(dir, &one) {
            bytes -= one.bytes;
        }
    }
}

fn found(dir: &Path) -> Vec<Found> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let homes = entries.filter_map(|entry| {
        let lock = entry.path();
        let home = lock.with_extension("");
        let is_lock = lock
            .extension()
            .is_some_and(|extension| extension == "lock");
        let used = entry.metadata().ok()?.modified().ok()?;
        let bytes = std::fs::read_to_string(home.join(SIZE)).ok();
        let bytes = bytes.and_then(|text| text.parse().ok()).unwrap_or(0);
        (is_lock && home.is_dir()).then_some(Found {
            home,
            lock,
            used,
            bytes,
        })
    });
    homes.collect()
}

/// Removes an environment if nobody uses it. It leaves its place at once, so that nobody finds a part of it.
fn remove(dir: &Path, one: &Found) -> bool {
    let Ok(lock) = File::options().read(true).write(true).open(&one.lock) else {
        return false;
    };
    if lock.try_lock().is_err() {
        return false;
    }
    let Ok(aside) = tempfile::Builder::new().prefix(".old-").tempdir_in(dir) else {
        return false;
    };
    std::fs::rename(&one.home, aside.path().join("environment")).is_ok()
}

/// How many bytes the files under a directory have.
pub(super) fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
