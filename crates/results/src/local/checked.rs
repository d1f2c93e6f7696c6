//! Remembers files that were hashed and have not changed since, so that a large body that is read in ranges is hashed
//! once.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// Maximum number of remembered files.
const REMEMBERED_MAX: usize = 64;

/// Smaller files are hashed each time.
const BYTES_MIN: u64 = 1024 * 1024;

/// A file that changed this recently may change again without a new timestamp.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Files whose content matches their hash.
#[derive(Debug, Default)]
pub(super) struct Checked(Mutex<VecDeque<Seen>>);

/// Identity and timestamps of a file when it was hashed. A write changes the timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    sha256: String,
    file: (u64, u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    pub(super) fn new(sha256: &str, meta: &Metadata) -> Self {
        Self {
            sha256: sha256.to_owned(),
            file: (meta.dev(), meta.ino(), meta.len()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let changed = u64::try_from(self.changed.0).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(changed);
        let age = changed.elapsed();
        self.file.2 >= BYTES_MIN && age.is_ok_and(|age| age > SETTLED_AFTER)
    }
}

impl Checked {
    /// Whether the file was hashed and has not changed since.
    pub(super) fn holds(&self, seen: &Seen) -> bool {
        self.seen().contains(seen)
    }

    /// Remembers a file that was hashed between two stamps, if both are equal.
    pub(super) fn note(&self, before: &Seen, after: Seen) {
        if *before != after || !after.is_settled() {
            return;
        }
        let mut seen = self.seen();
        if seen.len() >= REMEMBERED_MAX {
            seen.pop_front();
        }
        seen.push_back(after);
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, VecDeque<Seen>> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: u64, changed: i64) -> Seen {
        Seen {
            sha256: "ab".to_owned(),
            file: (1, 2, bytes),
            modified: (changed, 0),
            changed: (changed, 0),
        }
    }

    #[test]
    fn a_file_is_trusted_only_while_nothing_of_it_changes() {
        let checked = Checked::default();
        let large = seen(BYTES_MIN, 5);
        checked.note(&large, large.clone());
        assert!(checked.holds(&large));
        assert!(!checked.holds(&seen(BYTES_MIN, 6)));
        assert!(!checked.holds(&seen(BYTES_MIN + 1, 5)));
    }

    #[test]
    fn what_is_small_or_changed_meanwhile_or_a_moment_ago_is_not_remembered() {
        let checked = Checked::default();
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("the clock is after 1970")
            .as_secs();
        let now = i64::try_from(now).expect("the seconds fit into `i64`");
        for (before, after) in [
            (seen(1, 5), seen(1, 5)),
            (seen(BYTES_MIN, 5), seen(BYTES_MIN, 6)),
            (seen(BYTES_MIN, now), seen(BYTES_MIN, now)),
        ] {
            checked.note(&before, after.clone());
            assert!(!checked.holds(&after));
        }
    }
}
