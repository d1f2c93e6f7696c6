//! Holds a body until its hash is known: in memory while small, otherwise in a temporary file.
//!
//! Stores whose keys are hashes need this for writing, remote stores for reading: a body that cannot be checked in
//! place is checked here before its first byte is returned.

use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio_util::io::StreamReader;

use crate::bodies::clamp_range;
use crate::disk_space::FullDiskPolicy;
use crate::files::{CHUNK_BYTES, disk_error, file_chunks, run_disk_io};
use crate::temp_body_file::TempBodyFile;
use crate::{BodyStream, ByteStream, Error, sha256};

/// Bodies up to this size stay in memory.
pub(crate) const MEMORY_BYTES_MAX: usize = 1024 * 1024;

/// A body with its hash that is not stored yet.
#[derive(Debug)]
pub(crate) struct StagedBody {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) content: StagedContent,
}

/// Where a staged body is.
#[derive(Debug)]
pub(crate) enum StagedContent {
    Memory(Bytes),
    File(TempBodyFile),
}

/// Reads a body to its end, into memory or a file in this directory.
pub(crate) async fn stage_body(
    dir: &Path,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    when_full: FullDiskPolicy,
) -> Result<StagedBody, Error> {
    let mut head = Vec::new();
    let mut limited = (&mut *reader).take(MEMORY_BYTES_MAX as u64 + 1);
    let read = limited.read_to_end(&mut head).await;
    read.map_err(Error::Interrupted)?;
    if head.len() <= MEMORY_BYTES_MAX {
        return Ok(StagedBody::from_bytes(head.into()));
    }
    let dir = dir.to_owned();
    let draft = run_disk_io(move || TempBodyFile::create(&dir)).await?;
    let count = head.len();
    let (mut draft, _) = draft.write_chunk(head, count, when_full).await?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = reader.read(&mut chunk).await.map_err(Error::Interrupted)?;
        if read == 0 {
            break;
        }
        (draft, chunk) = draft.write_chunk(chunk, read, when_full).await?;
    }
    Ok(StagedBody {
        sha256: draft.sha256(),
        bytes: draft.bytes,
        content: StagedContent::File(draft),
    })
}

impl StagedBody {
    /// Stages a body that is in memory.
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self {
            sha256: sha256(&bytes),
            bytes: bytes.len() as u64,
            content: StagedContent::Memory(bytes),
        }
    }

    /// Returns a range in chunks. The stream may outlive the staged body.
    pub(crate) fn chunks(&self, range: Range<u64>) -> Result<ByteStream, Error> {
        match &self.content {
            StagedContent::Memory(bytes) => {
                let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
                let chunk = bytes.slice(index(range.start)..index(range.end));
                Ok(stream::iter([Ok(chunk)]).boxed())
            }
            StagedContent::File(draft) => {
                let file = draft.file.try_clone();
                let file = file.map_err(|error| disk_error(&draft.path, error))?;
                Ok(file_chunks(file, range))
            }
        }
    }

    /// Returns a range as a `BodyStream`.
    pub(crate) fn read(&self, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let range = clamp_range(range, self.bytes);
        Ok(BodyStream {
            bytes: self.bytes,
            range: range.clone(),
            chunks: self.chunks(range)?,
        })
    }

    /// Returns a reader of the whole body.
    pub(crate) fn reader(&self) -> Result<StagedReader, Error> {
        Ok(StagedReader(StreamReader::new(self.chunks(0..self.bytes)?)))
    }

    /// Returns the whole body in memory.
    pub(crate) async fn into_bytes(self) -> Result<Bytes, Error> {
        if let StagedContent::Memory(bytes) = &self.content {
            return Ok(bytes.clone());
        }
        let mut reader = self.reader()?;
        let mut body = Vec::with_capacity(usize::try_from(self.bytes).unwrap_or(0));
        let read = reader.read_to_end(&mut body).await;
        read.map_err(Error::Interrupted)?;
        Ok(body.into())
    }
}

/// Reader of a staged body.
pub(crate) struct StagedReader(StreamReader<ByteStream, Bytes>);

impl AsyncRead for StagedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use tempfile::TempDir;

    use super::*;
    use crate::contract::noise_bytes;

    #[tokio::test]
    async fn a_large_body_is_staged_in_a_file_that_is_deleted_with_it() {
        let dir = TempDir::new().unwrap();
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        for (count, waiting) in [(0, 0), (MEMORY_BYTES_MAX, 0), (MEMORY_BYTES_MAX + 1, 1)] {
            let body = noise_bytes(count);
            let mut reader = &body[..];
            let staged = stage_body(dir.path(), &mut reader, FullDiskPolicy::Wait);
            let staged = staged.await.unwrap();
            assert_eq!((staged.bytes, files()), (count as u64, waiting));
            assert_eq!(staged.sha256, sha256(&body));
            let end = staged.bytes;
            let chunks: Vec<Bytes> = staged.chunks(0..end).unwrap().try_collect().await.unwrap();
            assert!(chunks.concat() == body);
            assert!(staged.into_bytes().await.unwrap() == body);
            assert_eq!(files(), 0);
        }
    }
}
