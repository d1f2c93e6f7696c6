//! A stored body: its row and its chunks.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::Type;

use super::pool::StatementPool;
use crate::Error;

/// Maximum number of chunks that one statement checks.
const CHECKED_CHUNKS_MAX: i32 = 64;

const SELECT_BODY: &str = "SELECT draft, bytes, chunks, chunk_bytes FROM noetl.body WHERE sha256 = $1";

const SELECT_CHUNK: &str = "SELECT sha256, bytes FROM noetl.body_chunk WHERE draft = $1 AND n = $2";

/// The database computes the hashes, so that a check transfers no body.
const CHECK_CHUNKS: &str = "SELECT count(*), coalesce(sum(length(bytes)), 0)::bigint, \
    coalesce(bool_and(sha256(bytes) = sha256), true) \
    FROM noetl.body_chunk WHERE draft = $1 AND n >= $2 AND n < $3";

/// Layout of a stored body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BodyLayout {
    pub(super) draft: i64,
    pub(super) bytes: u64,
    chunks: i32,
    chunk_bytes: u64,
}

/// Why a chunk cannot be read.
#[derive(Debug)]
pub(super) enum ChunkError {
    /// It is missing or damaged.
    Damaged,
    /// The database cannot be accessed.
    Failed(Error),
}

impl From<Error> for ChunkError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl ChunkError {
    /// Converts to the error for a reference.
    pub(super) fn into_store_error(self, pool: &StatementPool, uri: &str) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Damaged => Error::Corrupt {
                uri: uri.to_owned(),
                file: PathBuf::from(format!("{}, table noetl.body_chunk", pool.location())),
            },
        }
    }
}

impl BodyLayout {
    /// Finds the body with this hash.
    pub(super) async fn find(pool: &StatementPool, hash: &[u8]) -> Result<Option<Self>, ChunkError> {
        let rows = pool.query(SELECT_BODY, &[(&hash, Type::BYTEA)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let (bytes, chunk_bytes): (i64, i32) = (row.get(1), row.get(3));
        let layout = Self {
            draft: row.get(0),
            bytes: u64::try_from(bytes).map_err(|_| ChunkError::Damaged)?,
            chunks: row.get(2),
            chunk_bytes: u64::try_from(chunk_bytes).map_err(|_| ChunkError::Damaged)?,
        };
        let is_valid = layout.chunk_bytes > 0 && layout.chunks > 0;
        is_valid.then_some(Some(layout)).ok_or(ChunkError::Damaged)
    }

    /// Returns the chunks that contain these bytes.
    pub(super) fn chunks_in(&self, range: &Range<u64>) -> Range<i32> {
        let number = |index: u64| i32::try_from(index).unwrap_or(i32::MAX);
        let first = number(range.start / self.chunk_bytes);
        let end = number(range.end.div_ceil(self.chunk_bytes));
        first.min(end)..end.min(self.chunks)
    }

    /// Returns the offset of a chunk in the body.
    pub(super) fn chunk_offset(&self, n: i32) -> u64 {
        u64::try_from(n).unwrap_or(0) * self.chunk_bytes
    }

    /// Returns the expected size of consecutive chunks.
    fn bytes_of_chunks(&self, chunks: Range<i32>) -> u64 {
        self.bytes.min(self.chunk_offset(chunks.end)) - self.bytes.min(self.chunk_offset(chunks.start))
    }

    /// Checks chunks in the database.
    pub(super) async fn check_chunks(&self, pool: &StatementPool, chunks: Range<i32>) -> Result<(), ChunkError> {
        let mut first = chunks.start;
        while first < chunks.end {
            let end = first.saturating_add(CHECKED_CHUNKS_MAX).min(chunks.end);
            let parameters = [
                (&self.draft as _, Type::INT8),
                (&first as _, Type::INT4),
                (&end as _, Type::INT4),
            ];
            let rows = pool.query(CHECK_CHUNKS, &parameters).await?;
            let row = rows.first().ok_or(ChunkError::Damaged)?;
            let (count, bytes, is_intact): (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
            let is_complete =
                count == i64::from(end - first) && u64::try_from(bytes) == Ok(self.bytes_of_chunks(first..end));
            if !is_intact || !is_complete {
                return Err(ChunkError::Damaged);
            }
            first = end;
        }
        Ok(())
    }

    /// Whether the whole body is intact.
    pub(super) async fn is_intact(&self, pool: &StatementPool) -> Result<bool, Error> {
        match self.check_chunks(pool, 0..self.chunks).await {
            Ok(()) => Ok(true),
            Err(ChunkError::Damaged) => Ok(false),
            Err(ChunkError::Failed(error)) => Err(error),
        }
    }

    /// Reads one chunk and checks it.
    pub(super) async fn read_chunk(&self, pool: &StatementPool, n: i32) -> Result<Bytes, ChunkError> {
        let parameters = [(&self.draft as _, Type::INT8), (&n as _, Type::INT4)];
        let rows = pool.query(SELECT_CHUNK, &parameters).await?;
        let row = rows.first().ok_or(ChunkError::Damaged)?;
        let (hash, bytes): (&[u8], &[u8]) = (row.get(0), row.get(1));
        let is_intact = Sha256::digest(bytes)[..] == *hash && bytes.len() as u64 == self.bytes_of_chunks(n..n + 1);
        is_intact
            .then(|| Bytes::copy_from_slice(bytes))
            .ok_or(ChunkError::Damaged)
    }
}
