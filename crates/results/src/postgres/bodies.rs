//! Bodies in the database that several servers share.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use model::result_ref::ResultRef;
use model::time::Time;
use postgres::Connector;
use serde_json::Map;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::layout::{BodyLayout, ChunkError};
use super::logs::PostgresLogs;
use super::pool::StatementPool;
use super::upload::{
    BodyUpload, CHUNK_BYTES, delete_body, delete_old_body, insert_small_body, list_old_bodies, renew_body, sweep_drafts,
};
use crate::bodies::{body_hash, clamp_range};
use crate::{BodyEntry, BodySource, BodyStore, BodyStream, Error, OldBodyQuery, StoredBody};

/// Name of the store in references.
const STORE_NAME: &str = "postgres";

/// Bodies in Postgres, in chunks of 1 MiB.
#[derive(Clone)]
pub struct PostgresBodyStore {
    pool: Arc<StatementPool>,
}

impl PostgresBodyStore {
    /// Opens bodies in a database whose schema is up to date; deletes incomplete bodies of dead processes.
    pub async fn open(connector: Connector) -> Result<Self, Error> {
        let pool = Arc::new(StatementPool::new(connector));
        sweep_drafts(&pool).await?;
        Ok(Self { pool })
    }

    /// Returns the task logs in the same database.
    pub fn logs(&self) -> PostgresLogs {
        PostgresLogs {
            pool: Arc::clone(&self.pool),
        }
    }

    async fn find_layout(&self, reference: &ResultRef) -> Result<BodyLayout, Error> {
        let uri = &reference.uri;
        let layout = BodyLayout::find(&self.pool, &body_hash(reference)?).await;
        let layout = layout.map_err(|error| error.into_store_error(&self.pool, uri))?;
        layout.ok_or_else(|| Error::NotAvailable { uri: uri.clone() })
    }

    /// Stores a body that fits into one chunk.
    async fn put_small(&self, bytes: &[u8]) -> Result<StoredBody, Error> {
        let hash = Sha256::digest(bytes).to_vec();
        if insert_small_body(&self.pool, &hash, bytes).await? || self.renew_if_intact(&hash).await? {
            return Ok(to_stored_body(&hash, bytes.len() as u64));
        }
        let mut draft = BodyUpload::start(&self.pool).await?;
        draft.write(bytes).await?;
        finish_upload(draft).await
    }

    async fn put_large(&self, bytes: Bytes) -> Result<StoredBody, Error> {
        let hash = Sha256::digest(&bytes);
        if self.renew_if_intact(&hash).await? {
            return Ok(to_stored_body(&hash, bytes.len() as u64));
        }
        self.put_stream(&mut &bytes[..]).await
    }

    async fn put_stream(&self, reader: &mut (dyn AsyncRead + Send + Unpin)) -> Result<StoredBody, Error> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if read_chunk(reader, &mut chunk).await? {
            return self.put_small(&chunk).await;
        }
        let mut draft = BodyUpload::start(&self.pool).await?;
        match write_chunks(&mut draft, reader, &mut chunk).await {
            Ok(()) => finish_upload(draft).await,
            Err(error) => {
                draft.abandon().await;
                Err(error)
            }
        }
    }

    /// Whether a body with this hash exists and is intact; if so, sets its storage time to now.
    async fn renew_if_intact(&self, hash: &[u8]) -> Result<bool, Error> {
        match BodyLayout::find(&self.pool, hash).await {
            Ok(Some(layout)) => {
                Ok(layout.is_intact(&self.pool).await? && renew_body(&self.pool, hash, layout.draft).await?)
            }
            Ok(None) | Err(ChunkError::Damaged) => Ok(false),
            Err(ChunkError::Failed(error)) => Err(error),
        }
    }
}

/// Writes the first chunk and all that follow.
async fn write_chunks(
    draft: &mut BodyUpload<'_>,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    chunk: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut is_last = false;
    // If a body fills its last chunk, the next read is empty and not written.
    while !chunk.is_empty() {
        draft.write(chunk).await?;
        if is_last {
            return Ok(());
        }
        is_last = read_chunk(reader, chunk).await?;
    }
    Ok(())
}

/// Reads one chunk; returns whether the body ended in it.
async fn read_chunk(reader: &mut (dyn AsyncRead + Send + Unpin), chunk: &mut Vec<u8>) -> Result<bool, Error> {
    chunk.clear();
    let mut next_chunk = reader.take(CHUNK_BYTES as u64);
    let read = next_chunk.read_to_end(chunk).await;
    Ok(read.map_err(Error::Interrupted)? < CHUNK_BYTES)
}

async fn finish_upload(draft: BodyUpload<'_>) -> Result<StoredBody, Error> {
    let (hash, bytes) = draft.finish().await?;
    Ok(to_stored_body(&hash, bytes))
}

fn to_stored_body(hash: &[u8], bytes: u64) -> StoredBody {
    let sha256 = hex::encode(hash);
    let fields = [("schema", "noetl"), ("table", "body"), ("pk", &sha256)];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
    StoredBody {
        location: Map::from_iter(fields),
        sha256,
        bytes,
        store: STORE_NAME,
        compression: None,
    }
}

/// The remaining chunks of a body.
struct ChunkReader {
    pool: Arc<StatementPool>,
    layout: BodyLayout,
    uri: String,
    range: Range<u64>,
    chunks: Range<i32>,
}

impl ChunkReader {
    async fn next_chunk(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let n = self.chunks.next()?;
        let chunk_start = self.layout.chunk_offset(n);
        let bytes = self.layout.read_chunk(&self.pool, n).await.map(|chunk| {
            let offset = |byte: u64| {
                let offset = usize::try_from(byte.saturating_sub(chunk_start)).unwrap_or(usize::MAX);
                offset.min(chunk.len())
            };
            chunk.slice(offset(self.range.start)..offset(self.range.end))
        });
        let bytes = bytes.map_err(|error| {
            // Chunks after a missing one must not be returned.
            self.chunks = 0..0;
            io::Error::other(error.into_store_error(&self.pool, &self.uri))
        });
        Some((bytes, self))
    }
}

#[async_trait]
impl BodyStore for PostgresBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        match body {
            BodySource::Bytes(bytes) if bytes.len() <= CHUNK_BYTES => self.put_small(&bytes).await,
            BodySource::Bytes(bytes) => self.put_large(bytes).await,
            BodySource::Stream(reader) => self.put_stream(reader).await,
        }
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let layout = self.find_layout(reference).await?;
        let to_store_error = |error: ChunkError| error.into_store_error(&self.pool, &reference.uri);
        let mut chunks = layout.chunks_in(&(0..layout.bytes.max(1)));
        let first = chunks.next().ok_or_else(|| to_store_error(ChunkError::Damaged))?;
        let mut body = BytesMut::from(&layout.read_chunk(&self.pool, first).await.map_err(to_store_error)?[..]);
        for n in chunks {
            body.extend_from_slice(&layout.read_chunk(&self.pool, n).await.map_err(to_store_error)?);
        }
        if Sha256::digest(&body)[..] != body_hash(reference)? {
            return Err(to_store_error(ChunkError::Damaged));
        }
        Ok(body.freeze())
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let layout = self.find_layout(reference).await?;
        let range = clamp_range(range, layout.bytes);
        let chunks = layout.chunks_in(&range);
        let checked = layout.check_chunks(&self.pool, chunks.clone()).await;
        checked.map_err(|error| error.into_store_error(&self.pool, &reference.uri))?;
        let remaining = ChunkReader {
            pool: Arc::clone(&self.pool),
            layout,
            uri: reference.uri.clone(),
            range: range.clone(),
            chunks,
        };
        Ok(BodyStream {
            bytes: layout.bytes,
            range,
            chunks: Box::pin(stream::unfold(remaining, ChunkReader::next_chunk)),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(hash) = body_hash(reference) else {
            return Ok(());
        };
        delete_body(&self.pool, &hash).await
    }

    async fn stored_before(&self, query: &OldBodyQuery<'_>) -> Result<Vec<BodyEntry>, Error> {
        let after = query.after.and_then(|after| hex::decode(after).ok());
        list_old_bodies(&self.pool, query.before, &after.unwrap_or_default(), query.limit).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        let Ok(hash) = hex::decode(sha256) else {
            return Ok(false);
        };
        delete_old_body(&self.pool, &hash, before).await
    }
}
