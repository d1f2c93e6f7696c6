//! Remembers files that were hashed and have not changed since, so that a large body that is read in ranges is hashed
//! once.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// Maximum number of remembered files.
const VERIFIED_FILES_MAX: usize = 64;

/// Smaller files are hashed each time.
const VERIFIED_BYTES_MIN: u64 = 1024 * 1024;

/// A file that changed this recently may change again without a new timestamp.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Files whose content matches their hash.
#[derive(Debug, Default)]
pub(super) struct VerifiedFiles(Mutex<VecDeque<FileStamp>>);

/// Identity and timestamps of a file when it was hashed. A write changes the timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamp {
    sha256: String,
    identity: (u64, u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(super) fn new(sha256: &str, meta: &Metadata) -> Self {
        Self {
            sha256: sha256.to_owned(),
            identity: (meta.dev(), meta.ino(), meta.len()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let changed = u64::try_from(self.changed.0).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(changed);
        let age = changed.elapsed();
        self.identity.2 >= VERIFIED_BYTES_MIN && age.is_ok_and(|age| age > SETTLED_AFTER)
    }
}

impl VerifiedFiles {
    /// Whether the file was hashed and has not changed since.
    pub(super) fn contains(&self, stamp: &FileStamp) -> bool {
        self.lock_stamps().contains(stamp)
    }

    /// Remembers a file that was hashed between two stamps, if both are equal.
    pub(super) fn insert(&self, before: &FileStamp, after: FileStamp) {
        if *before != after || !after.is_settled() {
            return;
        }
        let mut stamps = self.lock_stamps();
        if stamps.len() >= VERIFIED_FILES_MAX {
            stamps.pop_front();
        }
        stamps.push_back(after);
    }

    fn lock_stamps(&self) -> std::sync::MutexGuard<'_, VecDeque<FileStamp>> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(bytes: u64, changed: i64) -> FileStamp {
        FileStamp {
            sha256: "ab".to_owned(),
            identity: (1, 2, bytes),
            modified: (changed, 0),
            changed: (changed, 0),
        }
    }

    #[test]
    fn a_file_is_trusted_only_while_nothing_of_it_changes() {
        let checked = VerifiedFiles::default();
        let large = stamp(VERIFIED_BYTES_MIN, 5);
        checked.insert(&large, large.clone());
        assert!(checked.contains(&large));
        assert!(!checked.contains(&stamp(VERIFIED_BYTES_MIN, 6)));
        assert!(!checked.contains(&stamp(VERIFIED_BYTES_MIN + 1, 5)));
    }

    #[test]
    fn what_is_small_or_changed_meanwhile_or_a_moment_ago_is_not_remembered() {
        let checked = VerifiedFiles::default();
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("the clock is after 1970")
            .as_secs();
        let now = i64::try_from(now).expect("the seconds fit into `i64`");
        for (before, after) in [
            (stamp(1, 5), stamp(1, 5)),
            (stamp(VERIFIED_BYTES_MIN, 5), stamp(VERIFIED_BYTES_MIN, 6)),
            (stamp(VERIFIED_BYTES_MIN, now), stamp(VERIFIED_BYTES_MIN, now)),
        ] {
            checked.insert(&before, after.clone());
            assert!(!checked.contains(&after));
        }
    }
}
