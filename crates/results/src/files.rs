//! Files: chunked reads, directory syncs, cleanup of drafts, and conversion of I/O errors.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use crate::{ByteStream, Error};

/// Number of bytes to read from a file or stream at once.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// Drafts that were not modified for this long belong to dead processes.
const TEMP_FILE_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of blocking disk operations at once; further ones wait, because each thread takes memory.
static DISK_PERMITS: Semaphore = Semaphore::const_new(16);

/// Reads a range of a file in chunks.
pub(crate) fn file_chunks(file: File, range: Range<u64>) -> ByteStream {
    Box::pin(stream::unfold(FileChunks { file, range }, FileChunks::next_chunk))
}

/// Like `file_chunks`, but reads the first chunk at once; for callers on the blocking pool.
pub(crate) fn prefetched_chunks(file: File, range: Range<u64>) -> ByteStream {
    if range.is_empty() {
        return Box::pin(stream::empty());
    }
    let (first, tail) = FileChunks { file, range }.read_chunk();
    Box::pin(stream::iter([first]).chain(stream::unfold(tail, FileChunks::next_chunk)))
}

/// Deletes drafts of dead processes; failures to delete are ignored.
pub(crate) fn remove_stale_files(drafts: &Path) {
    let Ok(entries) = fs::read_dir(drafts) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > TEMP_FILE_AGE_MAX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| disk_error(dir, error))
}

/// Converts an I/O error.
pub(crate) fn disk_error(file: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind;
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { file },
        _ => Error::Unavailable { file, source: error },
    }
}

/// The remaining range of a file.
struct FileChunks {
    file: File,
    range: Range<u64>,
}

impl FileChunks {
    async fn next_chunk(self) -> Option<(std::io::Result<Bytes>, Self)> {
        if self.range.is_empty() {
            return None;
        }
        let read = run_blocking(move || self.read_chunk()).await;
        Some(read.expect("reading a file does not panic"))
    }

    fn read_chunk(mut self) -> (std::io::Result<Bytes>, Self) {
        let left = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX);
        let mut chunk = vec![0; left.min(CHUNK_BYTES)];
        // A positioned read: other readers may share the file.
        match self.file.read_exact_at(&mut chunk, self.range.start) {
            Ok(()) => {
                self.range.start += chunk.len() as u64;
                (Ok(chunk.into()), self)
            }
            Err(error) => {
                self.range.start = self.range.end;
                (Err(error), self)
            }
        }
    }
}

/// Runs disk work on the blocking pool.
pub(crate) async fn run_disk_io<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    run_blocking(work)
        .await
        .map_err(|error| Error::Interrupted(std::io::Error::other(error)))?
}

/// Like `run_disk_io`, for work with any return type.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let permit = DISK_PERMITS.acquire().await.expect("the semaphore is never closed");
    let work = move || {
        let result = work();
        drop(permit);
        result
    };
    spawn_blocking(work).await
}
