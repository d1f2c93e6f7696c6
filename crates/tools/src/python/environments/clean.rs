//! Deletes unused environments: those that were not used for long, and the oldest ones if the total size is too large.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::python::environments::build::SIZE_FILE;

/// Retention limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionLimits {
    /// Environments that were unused for longer are deleted.
    pub(super) unused_max: Duration,
    /// Maximum total size; beyond it, the least recently used ones are deleted.
    pub(super) bytes_max: u64,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self {
            unused_max: Duration::from_secs(30 * 24 * 60 * 60),
            bytes_max: 20 * 1024 * 1024 * 1024,
        }
    }
}

struct StoredEnvironment {
    dir: PathBuf,
    lock: PathBuf,
    used_at: SystemTime,
    bytes: u64,
}

/// Deletes environments beyond the limits that are not in use. Failed deletions are retried next time.
pub(super) fn remove_unused(dir: &Path, now: SystemTime, limits: RetentionLimits) {
    let mut environments = list_environments(dir);
    environments.sort_by_key(|environment| environment.used_at);
    let mut bytes: u64 = environments.iter().map(|environment| environment.bytes).sum();
    for environment in environments {
        let is_old = now.duration_since(environment.used_at).unwrap_or_default() > limits.unused_max;
        if (is_old || bytes > limits.bytes_max) && remove_environment(dir, &environment) {
            bytes -= environment.bytes;
        }
    }
}

fn list_environments(dir: &Path) -> Vec<StoredEnvironment> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let environments = entries.filter_map(|entry| {
        let lock = entry.path();
        let dir = lock.with_extension("");
        let is_lock = lock.extension().is_some_and(|extension| extension == "lock");
        let used_at = entry.metadata().ok()?.modified().ok()?;
        let bytes = std::fs::read_to_string(dir.join(SIZE_FILE)).ok();
        let bytes = bytes.and_then(|text| text.parse().ok()).unwrap_or(0);
        (is_lock && dir.is_dir()).then_some(StoredEnvironment {
            dir,
            lock,
            used_at,
            bytes,
        })
    });
    environments.collect()
}

/// Deletes an environment that is not in use. The rename removes it at once, so no process sees part of it.
fn remove_environment(dir: &Path, environment: &StoredEnvironment) -> bool {
    let Ok(lock) = File::options().read(true).write(true).open(&environment.lock) else {
        return false;
    };
    if lock.try_lock().is_err() {
        return false;
    }
    let Ok(temp_dir) = tempfile::Builder::new().prefix(".old-").tempdir_in(dir) else {
        return false;
    };
    std::fs::rename(&environment.dir, temp_dir.path().join("environment")).is_ok()
}

/// Total size of the files in a directory.
pub(super) fn dir_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => dir_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
