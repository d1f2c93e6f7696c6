//! Bodies in the database that several servers share.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use model::result_ref::ResultRef;
use model::time::Time;
use serde_json::Map;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::draft::{CHUNK_BYTES, Draft, delete, delete_old, old, renew, sweep, whole};
use super::head::{Head, Lost};
use super::logs::PostgresLogs;
use super::pool::{Connect, Pool};
use crate::bodies::{hash, within};
use crate::{Bodies, Error, Old, Reading, Source, Stored};

/// Name of the store in references.
const STORE: &str = "postgres";

/// Bodies in Postgres, in chunks of 1 MiB.
#[derive(Clone)]
pub struct Postgres {
    pool: Arc<Pool>,
}

impl Postgres {
    /// Opens bodies in a database whose schema is up to date; deletes incomplete bodies of dead processes.
    pub async fn open(connect: Arc<dyn Connect>) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(connect));
        sweep(&pool).await?;
        Ok(Self { pool })
    }

    /// Returns the task logs in the same database.
    pub fn logs(&self) -> PostgresLogs {
        PostgresLogs {
            pool: Arc::clone(&self.pool),
        }
    }

    async fn head(&self, reference: &ResultRef) -> Result<Head, Error> {
        let uri = &reference.uri;
        let found = Head::find(&self.pool, &hash(reference)?).await;
        let found = found.map_err(|lost| lost.named(&self.pool, uri))?;
        found.ok_or_else(|| Error::NotAvailable { uri: uri.clone() })
    }

    /// Stores a body that fits into one chunk.
    async fn put_small(&self, bytes: &[u8]) -> Result<Stored, Error> {
        let hash = Sha256::digest(bytes).to_vec();
        if whole(&self.pool, &hash, bytes).await? || self.holds(&hash).await? {
            return Ok(stored(&hash, bytes.len() as u64));
        }
        let mut draft = Draft::begin(&self.pool).await?;
        draft.write(bytes).await?;
        finish(draft).await
    }

    async fn put_large(&self, bytes: Bytes) -> Result<Stored, Error> {
        let hash = Sha256::digest(&bytes);
        if self.holds(&hash).await? {
            return Ok(stored(&hash, bytes.len() as u64));
        }
        self.put_stream(&mut &bytes[..]).await
    }

    async fn put_stream(
        &self,
        reader: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Stored, Error> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if fill(reader, &mut chunk).await? {
            return self.put_small(&chunk).await;
        }
        let mut draft = Draft::begin(&self.pool).await?;
        match pour(&mut draft, reader, &mut chunk).await {
            Ok(()) => finish(draft).await,
            Err(error) => {
                draft.abandon().await;
                Err(error)
            }
        }
    }

    /// Whether a body with this hash exists and is intact; if so, sets its storage time to now.
    async fn holds(&self, hash: &[u8]) -> Result<bool, Error> {
        match Head::find(&self.pool, hash).await {
            Ok(Some(head)) => {
                Ok(head.is_whole(&self.pool).await? && renew(&self.pool, hash, head.draft).await?)
            }
            Ok(None) | Err(Lost::Damaged) => Ok(false),
            Err(Lost::Failed(error)) => Err(error),
        }
    }
}

/// Writes the first chunk and all that follow.
async fn pour(
    draft: &mut Draft<'_>,
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
        is_last = fill(reader, chunk).await?;
    }
    Ok(())
}

/// Reads one chunk; returns whether the body ended in it.
async fn fill(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    chunk: &mut Vec<u8>,
) -> Result<bool, Error> {
    chunk.clear();
    let mut piece = reader.take(CHUNK_BYTES as u64);
    let read = piece.read_to_end(chunk).await;
    Ok(read.map_err(Error::Interrupted)? < CHUNK_BYTES)
}

async fn finish(draft: Draft<'_>) -> Result<Stored, Error> {
    let (hash, bytes) = draft.finish().await?;
    Ok(stored(&hash, bytes))
}

fn stored(hash: &[u8], bytes: u64) -> Stored {
    let sha256 = hex::encode(hash);
    let place = [("schema", "noetl"), ("table", "body"), ("pk", &sha256)];
    let place = place.map(|(name, value)| (name.to_owned(), value.into()));
    Stored {
        location: Map::from_iter(place),
        sha256,
        bytes,
        store: STORE,
        compression: None,
    }
}

/// The remaining chunks of a body.
struct Rest {
    pool: Arc<Pool>,
    head: Head,
    uri: String,
    range: Range<u64>,
    chunks: Range<i32>,
}

impl Rest {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let n = self.chunks.next()?;
        let begin = self.head.begin(n);
        let piece = self.head.chunk(&self.pool, n).await.map(|chunk| {
            let place = |byte: u64| {
                let place = usize::try_from(byte.saturating_sub(begin)).unwrap_or(usize::MAX);
                place.min(chunk.len())
            };
            chunk.slice(place(self.range.start)..place(self.range.end))
        });
        let piece = piece.map_err(|lost| {
            // Chunks after a missing one must not be returned.
            self.chunks = 0..0;
            io::Error::other(lost.named(&self.pool, &self.uri))
        });
        Some((piece, self))
    }
}

#[async_trait]
impl Bodies for Postgres {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        match body {
            Source::Bytes(bytes) if bytes.len() <= CHUNK_BYTES => self.put_small(&bytes).await,
            Source::Bytes(bytes) => self.put_large(bytes).await,
            Source::Stream(reader) => self.put_stream(reader).await,
        }
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let head = self.head(reference).await?;
        let lost = |lost: Lost| lost.named(&self.pool, &reference.uri);
        let mut chunks = head.chunks(&(0..head.bytes.max(1)));
        let first = chunks.next().ok_or_else(|| lost(Lost::Damaged))?;
        let mut body = BytesMut::from(&head.chunk(&self.pool, first).await.map_err(lost)?[..]);
        for n in chunks {
            body.extend_from_slice(&head.chunk(&self.pool, n).await.map_err(lost)?);
        }
        if Sha256::digest(&body)[..] != hash(reference)? {
            return Err(lost(Lost::Damaged));
        }
        Ok(body.freeze())
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        let head = self.head(reference).await?;
        let range = within(range, head.bytes);
        let chunks = head.chunks(&range);
        let checked = head.check(&self.pool, chunks.clone()).await;
        checked.map_err(|lost| lost.named(&self.pool, &reference.uri))?;
        let rest = Rest {
            pool: Arc::clone(&self.pool),
            head,
            uri: reference.uri.clone(),
            range: range.clone(),
            chunks,
        };
        Ok(Reading {
            bytes: head.bytes,
            range,
            pieces: Box::pin(stream::unfold(rest, Rest::next)),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(hash) = hash(reference) else {
            return Ok(());
        };
        delete(&self.pool, &hash).await
    }

    async fn stored_before(
        &self,
        before: Time,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Old>, Error> {
        let after = after.and_then(|after| hex::decode(after).ok());
        old(&self.pool, before, &after.unwrap_or_default(), limit).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        let Ok(hash) = hex::decode(sha256) else {
            return Ok(false);
        };
        delete_old(&self.pool, &hash, before).await
    }
}
