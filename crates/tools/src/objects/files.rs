//! Treats files in a directory like objects in a bucket.

use std::io;
use std::path::{Path, PathBuf};

use model::outcome::{ErrorKind, TaskError};
use results::{BodySource, ObjectPage, ObjectStream, ObjectSummary};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio_util::io::ReaderStream;

use crate::exhaustion::{exhausted_error, is_exhausted};

/// Bytes to read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Metadata of a file.
pub(super) async fn head(file: &Path) -> Result<ObjectSummary, TaskError> {
    let meta = tokio::fs::metadata(file)
        .await
        .map_err(|error| io_error(file, &error))?;
    if !meta.is_file() {
        return Err(io_error(file, &io::ErrorKind::IsADirectory.into()));
    }
    Ok(file_summary(file, &meta))
}

/// Opens a file, or a part of it.
pub(super) async fn get(file: &Path, range: Option<std::ops::Range<u64>>) -> Result<ObjectStream, TaskError> {
    let summary = head(file).await?;
    let range = range.unwrap_or(0..summary.bytes);
    let start = range.start.min(summary.bytes);
    let range = start..range.end.clamp(start, summary.bytes);
    let open = async {
        let mut reader = tokio::fs::File::open(file).await?;
        reader.seek(io::SeekFrom::Start(range.start)).await?;
        Ok(reader.take(range.end - range.start))
    };
    let reader = open.await.map_err(|error| io_error(file, &error))?;
    Ok(ObjectStream {
        summary,
        range,
        chunks: Box::pin(ReaderStream::with_capacity(reader, READ_BYTES)),
    })
}

/// Writes a file atomically and creates its parent directories. A reader sees either the old or the new content.
pub(super) async fn put(file: &Path, body: BodySource<'_>) -> Result<ObjectSummary, TaskError> {
    let write = async {
        let folder = file.parent().unwrap_or(Path::new("."));
        tokio::fs::create_dir_all(folder).await?;
        let draft = tempfile::NamedTempFile::new_in(folder)?;
        let mut out = tokio::fs::File::from_std(draft.reopen()?);
        match body {
            BodySource::Bytes(bytes) => out.write_all(&bytes).await?,
            BodySource::Stream(reader) => drop(tokio::io::copy(reader, &mut out).await?),
        }
        out.flush().await?;
        out.sync_all().await?;
        let target = file.to_owned();
        tokio::task::spawn_blocking(move || draft.persist(target))
            .await
            .map_err(io::Error::other)??;
        Ok(())
    };
    write.await.map_err(|error: io::Error| io_error(file, &error))?;
    head(file).await
}

/// Lists the files whose paths have this prefix, sorted by path.
pub(super) async fn list(prefix: &Path, after: Option<&str>, limit: usize) -> Result<ObjectPage, TaskError> {
    let prefix_text = prefix.to_string_lossy().into_owned();
    let after = after.map(str::to_owned);
    let (prefix, walked_prefix) = (prefix.to_owned(), prefix.to_owned());
    let walked = tokio::task::spawn_blocking(move || {
        let is_folder = prefix.is_dir();
        let root = match prefix.parent() {
            Some(parent) if !is_folder => parent,
            _ => &prefix,
        };
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let path = entry.path();
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() && path.to_string_lossy().starts_with(&prefix_text) {
                    files.push(path);
                }
            }
        }
        files.sort();
        files.retain(|file| after.as_ref().is_none_or(|after| file_uri(file) > *after));
        let has_more = files.len() > limit;
        files.truncate(limit);
        let objects = files.iter().map(|file| Ok(file_summary(file, &file.metadata()?)));
        let objects = objects.collect::<io::Result<Vec<_>>>()?;
        Ok::<_, io::Error>(ObjectPage { objects, has_more })
    });
    let walked = walked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    walked.map_err(|error| io_error(&walked_prefix, &error))
}

/// Deletes a file; a missing one is not an error.
pub(super) async fn delete(file: &Path) -> Result<bool, TaskError> {
    match tokio::fs::remove_file(file).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(file, &error)),
    }
}

/// Rejects files of NoETL itself.
pub fn check_allowed(file: PathBuf, forbidden: &[PathBuf]) -> Result<PathBuf, TaskError> {
    crate::sqlite::check_file(&file, forbidden)?;
    Ok(file)
}

pub(super) fn file_uri(file: &Path) -> String {
    format!("file://{}", file.display())
}

fn file_summary(file: &Path, meta: &std::fs::Metadata) -> ObjectSummary {
    use std::os::unix::fs::MetadataExt as _;
    let seconds = jiff::Timestamp::from_second(meta.mtime()).ok();
    ObjectSummary {
        uri: file_uri(file),
        bytes: meta.len(),
        // Changes with the content, like the ETag of a bucket.
        etag: Some(format!("\"{:x}-{:x}-{:x}\"", meta.ino(), meta.mtime_nsec(), meta.len())),
        modified: seconds.map(|time| time.to_string()),
        content_type: None,
    }
}

fn io_error(file: &Path, error: &io::Error) -> TaskError {
    if is_exhausted(error) {
        return exhausted_error(error);
    }
    let (kind, code) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "FILE_NOT_FOUND"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (ErrorKind::Storage, "STORAGE_FULL"),
        _ => (ErrorKind::Storage, "FILE_UNUSABLE"),
    };
    TaskError::new(kind, code, format!("`{}`: {error}", file.display()))
}
