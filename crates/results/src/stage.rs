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

use crate::bodies::within;
use crate::draft::Draft;
use crate::files::{CHUNK_BYTES, blocking, name, pieces};
use crate::space::WhenFull;
use crate::{Error, Pieces, Reading, sha256};

/// Bodies up to this size stay in memory.
pub(crate) const HELD_BYTES_MAX: usize = 1024 * 1024;

/// A body with its hash that is not stored yet.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) held: Held,
}

/// Where a staged body is.
#[derive(Debug)]
pub(crate) enum Held {
    Memory(Bytes),
    File(Draft),
}

/// Reads a body to its end, into memory or a file in this directory.
pub(crate) async fn stage(
    dir: &Path,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    when_full: WhenFull,
) -> Result<Staged, Error> {
    let mut head = Vec::new();
    let mut begin = (&mut *reader).take(HELD_BYTES_MAX as u64 + 1);
    let read = begin.read_to_end(&mut head).await;
    read.map_err(Error::Interrupted)?;
    if head.len() <= HELD_BYTES_MAX {
        return Ok(Staged::memory(head.into()));
    }
    let dir = dir.to_owned();
    let draft = blocking(move || Draft::begin(&dir)).await?;
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
    Ok(Staged {
        sha256: draft.sha256(),
        bytes: draft.bytes,
        held: Held::File(draft),
    })
}

impl Staged {
    /// Stages a body that is in memory.
    pub(crate) fn memory(bytes: Bytes) -> Self {
        Self {
            sha256: sha256(&bytes),
            bytes: bytes.len() as u64,
            held: Held::Memory(bytes),
        }
    }

    /// Returns a range in chunks. The stream may outlive the staged body.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Result<Pieces, Error> {
        match &self.held {
            Held::Memory(bytes) => {
                let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
                let piece = bytes.slice(index(range.start)..index(range.end));
                Ok(stream::iter([Ok(piece)]).boxed())
            }
            Held::File(draft) => {
                let file = draft.file.try_clone();
                let file = file.map_err(|error| name(&draft.path, error))?;
                Ok(pieces(file, range))
            }
        }
    }

    /// Returns a range as a `Reading`.
    pub(crate) fn read(&self, range: Option<Range<u64>>) -> Result<Reading, Error> {
        let range = within(range, self.bytes);
        Ok(Reading {
            bytes: self.bytes,
            range: range.clone(),
            pieces: self.pieces(range)?,
        })
    }

    /// Returns a reader of the whole body.
    pub(crate) fn reader(&self) -> Result<Reader, Error> {
        Ok(Reader(StreamReader::new(self.pieces(0..self.bytes)?)))
    }

    /// Returns the whole body in memory.
    pub(crate) async fn whole(self) -> Result<Bytes, Error> {
        if let Held::Memory(bytes) = &self.held {
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
pub(crate) struct Reader(StreamReader<Pieces, Bytes>);

impl AsyncRead for Reader {
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
    use crate::contract::noise;

    #[tokio::test]
    async fn a_large_body_waits_in_a_file_that_goes_with_it() {
        let dir = TempDir::new().unwrap();
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        for (count, waiting) in [(0, 0), (HELD_BYTES_MAX, 0), (HELD_BYTES_MAX + 1, 1)] {
            let body = noise(count);
            let mut reader = &body[..];
            let staged = stage(dir.path(), &mut reader, WhenFull::Wait);
            let staged = staged.await.unwrap();
            assert_eq!((staged.bytes, files()), (count as u64, waiting));
            assert_eq!(staged.sha256, sha256(&body));
            let end = staged.bytes;
            let pieces: Vec<Bytes> = staged.pieces(0..end).unwrap().try_collect().await.unwrap();
            assert!(pieces.concat() == body);
            assert!(staged.whole().await.unwrap() == body);
            assert_eq!(files(), 0);
        }
    }
}
