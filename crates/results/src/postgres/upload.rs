//! A body being written: its chunks first and its row last, so that a partial body is never found.

use model::time::Time;
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::Type;

use super::layout::{BodyLayout, ChunkError};
use super::pool::StatementPool;
use crate::{BodyEntry, Error};

/// Size of every chunk except the last.
pub(super) const CHUNK_BYTES: usize = 1024 * 1024;
const CHUNK_BYTES_COLUMN: i32 = 1024 * 1024;

/// Drafts older than this belong to dead processes, in microseconds.
const DRAFT_AGE_MAX_US: i64 = 24 * 3600 * 1_000_000;

const INSERT_DRAFT: &str = "INSERT INTO noetl.body_draft (draft, begun_at) \
    VALUES (nextval('noetl.body_draft_id'), noetl.micros()) RETURNING draft";

const INSERT_CHUNK: &str = "INSERT INTO noetl.body_chunk (draft, n, sha256, bytes) VALUES ($1, $2, $3, $4) \
    ON CONFLICT DO NOTHING";

/// The lock on the draft prevents a sweep from condemning it at the same time.
const INSERT_BODY: &str = "WITH mine AS (SELECT draft FROM noetl.body_draft \
        WHERE draft = $1 AND begun_at > 0 FOR UPDATE), \
    head AS (INSERT INTO noetl.body (sha256, draft, bytes, chunks, chunk_bytes, stored_at) \
        SELECT $2, draft, $3, $4, $5, noetl.micros() FROM mine ON CONFLICT DO NOTHING RETURNING draft), \
    gone AS (DELETE FROM noetl.body_draft d USING head WHERE d.draft = head.draft) \
    SELECT draft FROM head";

/// The damaged chunks become a draft that a sweep deletes, if it is not deleted before.
const REPLACE_CHUNKS: &str = "WITH head AS (UPDATE noetl.body SET draft = $1, chunks = $4, chunk_bytes = $5, \
        bytes = $6, stored_at = noetl.micros() \
        WHERE sha256 = $2 AND draft = $3 AND EXISTS (SELECT FROM noetl.body_draft WHERE draft = $1 AND begun_at > 0) \
        RETURNING draft), \
    gone AS (DELETE FROM noetl.body_draft d USING head WHERE d.draft = head.draft), \
    left_over AS (INSERT INTO noetl.body_draft (draft, begun_at) SELECT $3, 0 FROM head) \
    SELECT draft FROM head";

/// A draft with time 0 is condemned: it cannot become a body any more.
const MARK_DRAFT_DEAD: &str = "UPDATE noetl.body_draft SET begun_at = 0 WHERE draft = $1";

/// Deletes a few chunks at a time, so that a statement stays short however large the body is.
const DELETE_CHUNKS: &str = "DELETE FROM noetl.body_chunk WHERE draft = $1 AND n IN \
    (SELECT n FROM noetl.body_chunk WHERE draft = $1 LIMIT 128) RETURNING n";

const DELETE_DRAFT: &str = "DELETE FROM noetl.body_draft WHERE draft = $1";

const SELECT_STALE_DRAFTS: &str = "SELECT draft FROM noetl.body_draft WHERE begun_at < noetl.micros() - $1";

const DELETE_BODY: &str = "WITH head AS (DELETE FROM noetl.body WHERE sha256 = $1 RETURNING draft) \
    INSERT INTO noetl.body_draft (draft, begun_at) SELECT draft, 0 FROM head RETURNING draft";

/// The sweep checks the age under the row lock that this statement takes, so a body is either kept or reported missing
/// here.
const RENEW_BODY: &str =
    "UPDATE noetl.body SET stored_at = noetl.micros() WHERE sha256 = $1 AND draft = $2 RETURNING draft";

const SELECT_OLD_BODIES: &str =
    "SELECT sha256, bytes FROM noetl.body WHERE stored_at < $1 AND sha256 > $2 ORDER BY sha256 LIMIT $3";

const DELETE_OLD_BODY: &str = "WITH head AS (DELETE FROM noetl.body WHERE sha256 = $1 AND stored_at < $2 RETURNING draft) \
    INSERT INTO noetl.body_draft (draft, begun_at) SELECT draft, 0 FROM head RETURNING draft";

/// Stores a small body in one statement.
const INSERT_SMALL_BODY: &str = "WITH head AS (INSERT INTO noetl.body (sha256, draft, bytes, chunks, chunk_bytes, stored_at) \
        VALUES ($1, nextval('noetl.body_draft_id'), $3, 1, $4, noetl.micros()) \
        ON CONFLICT DO NOTHING RETURNING draft), \
    chunk AS (INSERT INTO noetl.body_chunk (draft, n, sha256, bytes) SELECT draft, 0, $1, $2 FROM head) \
    SELECT draft FROM head";

/// A body being written. Its chunks belong to a draft until it has its row.
pub(super) struct BodyUpload<'p> {
    pool: &'p StatementPool,
    id: i64,
    chunks: i32,
    bytes: u64,
    hash: Sha256,
}

/// Deletes drafts of dead processes.
pub(super) async fn sweep_drafts(pool: &StatementPool) -> Result<(), Error> {
    for row in pool
        .query(SELECT_STALE_DRAFTS, &[(&DRAFT_AGE_MAX_US, Type::INT8)])
        .await?
    {
        discard_draft(pool, row.get(0)).await;
    }
    Ok(())
}

/// Deletes a body: first its row, then its chunks.
pub(super) async fn delete_body(pool: &StatementPool, hash: &[u8]) -> Result<(), Error> {
    for row in pool.query(DELETE_BODY, &[(&hash, Type::BYTEA)]).await? {
        discard_draft(pool, row.get(0)).await;
    }
    Ok(())
}

/// Lists bodies that were last stored before a time and whose hashes follow `after`.
pub(super) async fn list_old_bodies(
    pool: &StatementPool,
    before: Time,
    after: &[u8],
    limit: usize,
) -> Result<Vec<BodyEntry>, Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = [
        (&before.0 as _, Type::INT8),
        (&after as _, Type::BYTEA),
        (&limit as _, Type::INT8),
    ];
    let rows = pool.query(SELECT_OLD_BODIES, &values).await?;
    let old = |row: &tokio_postgres::Row| BodyEntry {
        sha256: hex::encode(row.get::<_, &[u8]>(0)),
        bytes: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0),
    };
    Ok(rows.iter().map(old).collect())
}

/// Deletes a body unless it was stored again since a time; returns whether it was deleted.
pub(super) async fn delete_old_body(pool: &StatementPool, hash: &[u8], before: Time) -> Result<bool, Error> {
    let values = [(&hash as _, Type::BYTEA), (&before.0 as _, Type::INT8)];
    let rows = pool.query(DELETE_OLD_BODY, &values).await?;
    for row in &rows {
        discard_draft(pool, row.get(0)).await;
    }
    Ok(!rows.is_empty())
}

/// Sets the storage time of a body to now; returns false if it does not exist any more.
pub(super) async fn renew_body(pool: &StatementPool, hash: &[u8], draft: i64) -> Result<bool, Error> {
    let values = [(&hash as _, Type::BYTEA), (&draft as _, Type::INT8)];
    Ok(!pool.query(RENEW_BODY, &values).await?.is_empty())
}

/// Stores a body of one chunk if it does not exist; returns whether it was stored.
pub(super) async fn insert_small_body(pool: &StatementPool, hash: &[u8], bytes: &[u8]) -> Result<bool, Error> {
    let size = i64::try_from(bytes.len()).expect("the size of a chunk fits into `i64`");
    let values = [
        (&hash as _, Type::BYTEA),
        (&bytes as _, Type::BYTEA),
        (&size as _, Type::INT8),
        (&CHUNK_BYTES_COLUMN as _, Type::INT4),
    ];
    Ok(!pool.query(INSERT_SMALL_BODY, &values).await?.is_empty())
}

impl<'p> BodyUpload<'p> {
    pub(super) async fn start(pool: &'p StatementPool) -> Result<Self, Error> {
        let rows = pool.query(INSERT_DRAFT, &[]).await?;
        let row = rows.first().ok_or_else(swept_error)?;
        Ok(Self {
            pool,
            id: row.get(0),
            chunks: 0,
            bytes: 0,
            hash: Sha256::new(),
        })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hash.update(bytes);
        let hash = Sha256::digest(bytes);
        let values = [
            (&self.id as _, Type::INT8),
            (&self.chunks as _, Type::INT4),
            (&&hash[..] as _, Type::BYTEA),
            (&bytes as _, Type::BYTEA),
        ];
        self.pool.query(INSERT_CHUNK, &values).await?;
        self.chunks += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Inserts the row of the body, unless it exists already; returns hash and size.
    pub(super) async fn finish(self) -> Result<(Vec<u8>, u64), Error> {
        let hash = self.hash.clone().finalize().to_vec();
        let bytes = self.bytes_column();
        let values = [
            (&self.id as _, Type::INT8),
            (&&hash[..] as _, Type::BYTEA),
            (&bytes as _, Type::INT8),
            (&self.chunks as _, Type::INT4),
            (&CHUNK_BYTES_COLUMN as _, Type::INT4),
        ];
        let finished = !self.pool.query(INSERT_BODY, &values).await?.is_empty();
        let unused_draft = if finished {
            None
        } else {
            self.resolve_conflict(&hash).await?
        };
        if let Some(unused_draft) = unused_draft {
            discard_draft(self.pool, unused_draft).await;
        }
        Ok((hash, self.bytes))
    }

    fn bytes_column(&self) -> i64 {
        i64::try_from(self.bytes).expect("the size of a body fits into `i64`")
    }

    /// Determines which draft the body's row refers to. Returns the draft that is not needed any more.
    async fn resolve_conflict(&self, hash: &[u8]) -> Result<Option<i64>, Error> {
        let existing = match BodyLayout::find(self.pool, hash).await {
            Ok(existing) => existing,
            Err(ChunkError::Failed(error)) => return Err(error),
            Err(ChunkError::Damaged) => None,
        };
        let layout = existing.ok_or_else(swept_error)?;
        if layout.draft == self.id {
            // The response to an earlier attempt was lost.
            return Ok(None);
        }
        if layout.is_intact(self.pool).await? {
            let is_renewed = renew_body(self.pool, hash, layout.draft).await?;
            return is_renewed.then_some(Some(self.id)).ok_or_else(swept_error);
        }
        let values = [
            (&self.id as _, Type::INT8),
            (&hash as _, Type::BYTEA),
            (&layout.draft as _, Type::INT8),
            (&self.chunks as _, Type::INT4),
            (&CHUNK_BYTES_COLUMN as _, Type::INT4),
            (&self.bytes_column() as _, Type::INT8),
        ];
        let is_repaired = !self.pool.query(REPLACE_CHUNKS, &values).await?.is_empty();
        // If another process repaired it meanwhile, the result is the same.
        Ok(Some(if is_repaired { layout.draft } else { self.id }))
    }

    /// Deletes the draft.
    pub(super) async fn abandon(self) {
        discard_draft(self.pool, self.id).await;
    }
}

/// Deletes chunks that nothing refers to; a later sweep repeats what fails here.
async fn discard_draft(pool: &StatementPool, draft: i64) {
    if let Err(error) = delete_draft(pool, draft).await {
        tracing::debug!(%error, draft, "failed to delete chunks of a body; the next sweep deletes them");
    }
}

async fn delete_draft(pool: &StatementPool, draft: i64) -> Result<(), Error> {
    let params = [(&draft as _, Type::INT8)];
    pool.query(MARK_DRAFT_DEAD, &params).await?;
    while !pool.query(DELETE_CHUNKS, &params).await?.is_empty() {}
    pool.query(DELETE_DRAFT, &params).await?;
    Ok(())
}

/// A sweep deleted the chunks while they were written, which happens only after a day.
fn swept_error() -> Error {
    Error::Interrupted(std::io::ErrorKind::TimedOut.into())
}
