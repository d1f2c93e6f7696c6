//! Writes that are not commits: claims, sessions, messages, the catalog, ownership. Each is one statement.

use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, WorkerId};
use model::time::Time;
use postgres::{RetrySafety, SqlValues};
use tokio_postgres::Row;

use crate::columns::{Columns as _, owner_name};
use crate::commit::{Message, MessageKey};
use crate::error::Error;
use crate::postgres::pool::SessionPool;
use crate::postgres::query_error::IntoStoreError as _;
use crate::postgres::rows::{self, owner_id, read_all, to_i32, to_i64};
use crate::rows::{Adoption, CatalogEntry, ClaimQuery, CommandClaim, OldRows, OwnerId, RemovedRows, SessionHolder};
use crate::store::refusal_key;

/// Claims pending commands for a worker, oldest first.
pub(super) async fn claim(pool: &SessionPool, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error> {
    const CLAIM: &str = "SELECT body, lease_epoch FROM noetl.claim_commands($1, $2, $3, $4, $5)";
    let kinds = query.kinds.as_deref();
    let kinds: Option<Vec<&str>> = kinds.map(|kinds| kinds.iter().map(Name::as_str).collect());
    let values: SqlValues<'_> = &[
        &query.pool.as_str(),
        &owner_name(query.owner.as_ref()),
        &i64::from(query.max),
        &&*query.worker.0,
        &kinds,
    ];
    let rows = pool.query(RetrySafety::NotIdempotent, CLAIM, values).await?;
    read_all(&rows, rows::read_row).map_err(|error| error.into_store_error(pool.target()))
}

/// Runs one idempotent statement and returns its rows.
async fn query_idempotent(pool: &SessionPool, sql: &'static str, values: SqlValues<'_>) -> Result<Vec<Row>, Error> {
    pool.query(RetrySafety::Idempotent, sql, values).await
}

pub(super) async fn release(pool: &SessionPool, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
    const RELEASE: &str = "UPDATE noetl.command SET worker = NULL, claimed_at = NULL
        WHERE execution_id = $1 AND seq = $2 AND lease_epoch = $3";
    let values: SqlValues<'_> = &[&command.execution.0, &to_i64(command.seq.0), &to_i32(lease_epoch.0)];
    query_idempotent(pool, RELEASE, values).await.map(drop)
}

pub(super) async fn renew_session(
    pool: &SessionPool,
    worker: &WorkerId,
    holder: &SessionHolder,
    expires_at: Time,
) -> Result<bool, Error> {
    const RENEW: &str = "INSERT INTO noetl.session AS s (worker, expires_at, holder) VALUES ($1, $2, $3)
        ON CONFLICT (worker) DO UPDATE SET expires_at = excluded.expires_at, holder = excluded.holder
        WHERE s.holder IS NULL OR s.holder = excluded.holder
        RETURNING 1";
    let values: SqlValues<'_> = &[&&*worker.0, &expires_at.0, &&*holder.0];
    Ok(!query_idempotent(pool, RENEW, values).await?.is_empty())
}

/// Replaces a session. A `claimed_at` of 0 marks its claims as lost.
pub(super) async fn replace_session(
    pool: &SessionPool,
    worker: &WorkerId,
    replaced: &SessionHolder,
    holder: &SessionHolder,
    expires_at: Time,
) -> Result<bool, Error> {
    const REPLACE: &str = "WITH replaced AS (
            UPDATE noetl.session SET holder = $3, expires_at = $4
            WHERE worker = $1 AND holder = $2 RETURNING worker
        ), lost AS (
            UPDATE noetl.command c SET claimed_at = 0 FROM replaced r WHERE c.worker = r.worker
        )
        SELECT 1 FROM replaced";
    let values: SqlValues<'_> = &[&&*worker.0, &&*replaced.0, &&*holder.0, &expires_at.0];
    Ok(!query_idempotent(pool, REPLACE, values).await?.is_empty())
}

pub(super) async fn send(pool: &SessionPool, message: &Message) -> Result<(), Error> {
    const SEND: &str = "INSERT INTO noetl.message (from_id, seq, n, to_id, body) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    let MessageKey { from, seq, n } = message.key;
    let values: SqlValues<'_> = &[&from.0, &to_i64(seq.0), &to_i32(n), &message.to.0, &message.body.text()];
    query_idempotent(pool, SEND, values).await.map(drop)
}

/// Consumes a message and stores the refusal.
pub(super) async fn refuse_message(pool: &SessionPool, key: MessageKey, refusal: &str) -> Result<(), Error> {
    const REFUSE: &str = "WITH refused AS (
            UPDATE noetl.message SET body = NULL
            WHERE from_id = $1 AND seq = $2 AND n = $3 AND body IS NOT NULL RETURNING 1
        )
        INSERT INTO noetl.setting (key, value, retained_from) SELECT $4, $5, noetl.micros() FROM refused
        ON CONFLICT DO NOTHING";
    let setting = refusal_key(key);
    let values: SqlValues<'_> = &[&key.from.0, &to_i64(key.seq.0), &to_i32(key.n), &setting, &refusal];
    query_idempotent(pool, REFUSE, values).await.map(drop)
}

/// Withdraws a message. Returns whether it was pending.
pub(super) async fn withdraw_message(pool: &SessionPool, key: MessageKey) -> Result<bool, Error> {
    const WITHDRAW: &str = "UPDATE noetl.message SET body = NULL
        WHERE from_id = $1 AND seq = $2 AND n = $3 AND body IS NOT NULL RETURNING 1";
    let values: SqlValues<'_> = &[&key.from.0, &to_i64(key.seq.0), &to_i32(key.n)];
    // Not repeated after a lost reply: the second statement would find the message consumed by the first.
    let rows = pool.query(RetrySafety::NotIdempotent, WITHDRAW, values).await?;
    Ok(!rows.is_empty())
}

/// Removes rows whose retention has passed.
pub(super) async fn remove_old(pool: &SessionPool, old: OldRows) -> Result<RemovedRows, Error> {
    const REMOVE: &str = "SELECT removed, postponed FROM noetl.remove_old_rows($1, $2, $3, $4)";
    let values: SqlValues<'_> = &[
        &old.sessions_before.0,
        &old.requests_before.0,
        &old.messages_before.0,
        &i64::from(old.limit),
    ];
    let rows = query_idempotent(pool, REMOVE, values).await?;
    let read = |row: &Row| {
        Ok(RemovedRows {
            removed: row.unsigned(0)?,
            postponed: row.unsigned(1)?,
        })
    };
    let counts = read_all(&rows, read).map_err(|error| error.into_store_error(pool.target()))?;
    let mut removed = counts.into_iter().next().unwrap_or_default();
    removed.removed += remove_old_waits(pool, old).await?;
    Ok(removed)
}

/// Removes signals that no task took, and waits that a successful end left, of executions that ended long ago.
async fn remove_old_waits(pool: &SessionPool, old: OldRows) -> Result<u64, Error> {
    const REMOVE: &str = "WITH signals AS (
            DELETE FROM noetl.early_signal WHERE execution_id IN (
                SELECT DISTINCT s.execution_id FROM noetl.early_signal s JOIN noetl.execution e USING (execution_id)
                WHERE e.finished_at < $1 LIMIT $2)
            RETURNING 1
        ), waits AS (
            DELETE FROM noetl.pending_wait WHERE execution_id IN (
                SELECT DISTINCT w.execution_id FROM noetl.pending_wait w JOIN noetl.execution e USING (execution_id)
                WHERE e.finished_at < $1 LIMIT $2)
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM signals) + (SELECT count(*) FROM waits)";
    let values: SqlValues<'_> = &[&old.requests_before.0, &i64::from(old.limit)];
    let rows = query_idempotent(pool, REMOVE, values).await?;
    let counts = read_all(&rows, |row| row.unsigned(0)).map_err(|error| error.into_store_error(pool.target()))?;
    Ok(counts.into_iter().next().unwrap_or(0))
}

/// Maximum number of rounds that a process loses to others that register the same path concurrently. One of them
/// succeeds in each round, so this limits the number of concurrent registrations.
const REGISTRATIONS_MAX: usize = 1_000;

/// Registers a playbook. Concurrent registrations of a path collide on the version; the loser tries again.
pub(super) async fn put_playbook(pool: &SessionPool, path: &str, text: &str) -> Result<CatalogEntry, Error> {
    const PUT: &str = "WITH latest AS (
            SELECT path, version, hash, text, registered_at FROM noetl.catalog
            WHERE path = $1 ORDER BY version DESC LIMIT 1
        ), fresh AS (
            INSERT INTO noetl.catalog (path, version, hash, text, registered_at)
            SELECT $1, coalesce((SELECT version FROM latest), 0) + 1, $2, $3, noetl.micros()
            WHERE NOT EXISTS (SELECT FROM latest WHERE hash = $2)
            ON CONFLICT DO NOTHING
            RETURNING path, version, hash, text, registered_at
        )
        SELECT * FROM fresh UNION ALL SELECT * FROM latest WHERE hash = $2";
    let hash = PlaybookHash::from_text(text);
    for _ in 0..REGISTRATIONS_MAX {
        let rows = query_idempotent(pool, PUT, &[&path, &&*hash.0, &text]).await?;
        let entries = read_all(&rows, rows::read_row).map_err(|error| error.into_store_error(pool.target()))?;
        if let Some(entry) = entries.into_iter().next() {
            return Ok(entry);
        }
    }
    Err(Error::Unavailable(
        "too many concurrent registrations of the same path".into(),
    ))
}

pub(super) async fn adopt(
    pool: &SessionPool,
    id: ExecutionId,
    new_owner: &OwnerId,
    now: Time,
) -> Result<Adoption, Error> {
    const ADOPT: &str = "WITH was AS (
            SELECT owner FROM noetl.execution WHERE execution_id = $1 FOR NO KEY UPDATE
        ), taken AS (
            UPDATE noetl.execution SET owner = $2
            WHERE execution_id = $1 AND (
                SELECT owner IS NULL OR owner = $2 OR NOT EXISTS (
                    SELECT FROM noetl.runtime r WHERE r.owner = was.owner AND abs(r.heartbeat - $3) < 3000000 OFFSET 0
                ) FROM was
            )
            RETURNING 1
        )
        SELECT was.owner, EXISTS (SELECT FROM taken) FROM was";
    let rows = query_idempotent(pool, ADOPT, &[&id.0, &&*new_owner.0, &now.0]).await?;
    let read = |row: &Row| -> Result<_, postgres::QueryError> {
        Ok((row.try_get::<_, Option<String>>(0)?, row.try_get::<_, bool>(1)?))
    };
    let adoptions = read_all(&rows, read).map_err(|error| error.into_store_error(pool.target()))?;
    Ok(match adoptions.into_iter().next() {
        None => Adoption::NotFound,
        Some((Some(other), false)) => Adoption::OwnedBy(owner_id(&other)),
        Some(_) => Adoption::Owned,
    })
}
