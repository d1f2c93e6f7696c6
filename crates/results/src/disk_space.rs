//! Disk space: bodies leave a reserve free, and a stream waits until there is enough space.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::files::{disk_error, run_blocking};
use crate::{Error, StoredBody};

/// Free space that bodies leave on a disk: for the log of a store on the same disk, and for the space that the store
/// reserves for control requests.
const FREE_BYTES_MIN: u64 = 1536 * 1024;

/// How often a waiting stream checks for space.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// What happens to a stream when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullDiskPolicy {
    /// Wait for space: the stream cannot be read a second time.
    Wait,
    /// Fail: the stream can be read again.
    Refuse,
}

/// A file to which a stream is written before it can be stored. A full disk pauses the stream.
#[derive(Debug)]
pub struct SpoolFile {
    file: Arc<File>,
    dir: PathBuf,
    bytes: u64,
    watch: SpaceWatch,
}

/// Records whether a stream had to wait for space.
#[derive(Debug, Clone, Default)]
pub struct SpaceWatch(Arc<AtomicBool>);

impl SpaceWatch {
    /// Whether the stream waits or has waited.
    pub fn has_waited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl SpoolFile {
    /// Wraps an empty file in this directory; the file may be unlinked.
    pub fn new(file: File, dir: &Path) -> Self {
        Self {
            file: Arc::new(file),
            dir: dir.to_owned(),
            bytes: 0,
            watch: SpaceWatch::default(),
        }
    }

    /// Records waits in `watch`.
    #[must_use]
    pub fn with_watch(mut self, watch: &SpaceWatch) -> Self {
        self.watch = watch.clone();
        self
    }

    /// Number of written bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes as soon as there is space.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), Error> {
        let (file, dir, offset) = (Arc::clone(&self.file), self.dir.clone(), self.bytes);
        let (count, watch) = (bytes.len() as u64, self.watch.clone());
        let write = move |(): &mut ()| {
            let written = write_at(&file, &dir, &bytes, offset);
            if let Err(Error::Full { .. }) = &written {
                watch.0.store(true, Ordering::Relaxed);
            }
            written
        };
        write_when_free((), FullDiskPolicy::Wait, write).await?;
        self.bytes += count;
        Ok(())
    }

    /// Returns the file, to be read from its beginning.
    pub fn into_file(self) -> Result<File, Error> {
        let clone = |file: &File| file.try_clone();
        Arc::try_unwrap(self.file)
            .or_else(|shared| clone(&shared))
            .map_err(|error| disk_error(&self.dir, error))
    }
}

/// Writes at an offset, unless that would use up the reserve. The same bytes may be written again.
pub(crate) fn write_at(file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<(), Error> {
    let needed = FREE_BYTES_MIN.saturating_add(bytes.len() as u64);
    if free_bytes(file).is_some_and(|free| free < needed) {
        let file = path.to_owned();
        return Err(Error::Full { file });
    }
    let written = file.write_all_at(bytes, offset);
    written.map_err(|error| disk_error(path, error))
}

/// Returns the free bytes on the file system of a file, if known.
fn free_bytes(file: &File) -> Option<u64> {
    let stats = rustix::fs::fstatvfs(file).ok()?;
    // A file system that reports no size has no limit.
    (stats.f_blocks > 0).then(|| stats.f_bavail.saturating_mul(stats.f_frsize))
}

/// Repeats a write on the blocking pool until the disk has space. The write must be idempotent.
pub(crate) async fn write_when_free<S: Send + 'static>(
    mut state: S,
    when_full: FullDiskPolicy,
    write: impl Fn(&mut S) -> Result<(), Error> + Send + 'static,
) -> Result<S, Error> {
    let mut write = write;
    let mut wait = SpaceWait::default();
    loop {
        let attempt = run_blocking(move || {
            let written = write(&mut state);
            (state, write, written)
        });
        let written;
        (state, write, written) = attempt
            .await
            .map_err(|error| Error::Interrupted(std::io::Error::other(error)))?;
        match written {
            Err(error) if when_full == FullDiskPolicy::Wait => wait.wait_after(error).await?,
            written => return written.map(|()| state),
        }
    }
}

/// Stores a body from memory as soon as there is space; used for streams that cannot be read again.
pub(crate) async fn put_when_free<F>(mut put: impl FnMut() -> F) -> Result<StoredBody, Error>
where
    F: Future<Output = Result<StoredBody, Error>>,
{
    let mut wait = SpaceWait::default();
    loop {
        match put().await {
            Ok(stored) => return Ok(stored),
            Err(error) => wait.wait_after(error).await?,
        }
    }
}

/// Wait for disk space, for one operation.
#[derive(Default)]
struct SpaceWait {
    has_waited: bool,
}

impl SpaceWait {
    /// Waits briefly after an `Error::Full`; returns other errors.
    async fn wait_after(&mut self, error: Error) -> Result<(), Error> {
        if !matches!(error, Error::Full { .. }) {
            return Err(error);
        }
        if !self.has_waited {
            tracing::warn!(%error, "waiting for disk space");
        }
        self.has_waited = true;
        tokio::time::sleep(POLL_INTERVAL).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn full_disk_error() -> Error {
        let file = "x".into();
        Error::Full { file }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_done_again_until_there_is_space_or_refused() {
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        let write = move |last_count: &mut u32| {
            *last_count = counted.fetch_add(1, Ordering::Relaxed);
            if *last_count < 3 {
                Err(full_disk_error())
            } else {
                Ok(())
            }
        };
        let refused = write_when_free(0, FullDiskPolicy::Refuse, write.clone()).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        let written = write_when_free(0, FullDiskPolicy::Wait, write).await;
        assert_eq!((written.unwrap(), attempts.load(Ordering::Relaxed)), (3, 4));
    }

    #[tokio::test]
    async fn a_spool_file_holds_what_was_appended() {
        let dir = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile_in(dir.path()).unwrap();
        let mut spool = SpoolFile::new(file, dir.path());
        for part in ["one ", "two"] {
            spool.append(Bytes::from(part)).await.unwrap();
        }
        assert_eq!(spool.bytes(), 7);
        let text = std::io::read_to_string(spool.into_file().unwrap());
        assert_eq!(text.unwrap(), "one two");
    }
}
