//! Access tokens, the audit log, settings, the outbox, claimed commands and owners. Each operation is one statement.

use model::id::{ExecutionId, WorkerId};
use model::time::Time;
use postgres::{QueryError, RetrySafety, SqlValues};
use tokio_postgres::Row;

use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim};
use crate::columns::Columns as _;
use crate::error::Error;
use crate::postgres::pool::SessionPool;
use crate::postgres::queries::{query_row, query_rows};
use crate::postgres::rows::{owner_id, read_row, to_i64};
use crate::store::has_retention;

async fn execute(pool: &SessionPool, sql: &'static str, values: SqlValues<'_>) -> Result<(), Error> {
    pool.query(RetrySafety::Idempotent, sql, values).await.map(drop)
}

pub(super) async fn put_token(pool: &SessionPool, token: &AccessTokenRow) -> Result<(), Error> {
    const PUT: &str = "INSERT INTO noetl.token
            (id, name, hash, role, created_at, expires_at, last_used_at, revoked_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, hash = excluded.hash, role = excluded.role,
            created_at = excluded.created_at, expires_at = excluded.expires_at,
            last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at";
    let values: SqlValues<'_> = &[
        &token.id.0,
        &token.name,
        &&token.hash[..],
        &token.role.as_str(),
        &token.created_at.0,
        &token.expires_at.map(|time| time.0),
        &token.last_used_at.map(|time| time.0),
        &token.revoked_at.map(|time| time.0),
    ];
    execute(pool, PUT, values).await
}

pub(super) async fn token_by_hash(pool: &SessionPool, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error> {
    const ONE: &str = "SELECT id, name, hash, role, created_at, expires_at, last_used_at, revoked_at
        FROM noetl.token WHERE hash = $1";
    query_row(pool, ONE, &[&&hash[..]], read_row).await
}

pub(super) async fn tokens(pool: &SessionPool) -> Result<Vec<AccessTokenRow>, Error> {
    const ALL: &str = "SELECT id, name, hash, role, created_at, expires_at, last_used_at, revoked_at
        FROM noetl.token ORDER BY created_at, id";
    query_rows(pool, ALL, &[], read_row).await
}

pub(super) async fn revoke_token(pool: &SessionPool, id: AccessTokenId) -> Result<(), Error> {
    const REVOKE: &str = "UPDATE noetl.token SET revoked_at = coalesce(revoked_at, noetl.micros()) WHERE id = $1";
    execute(pool, REVOKE, &[&id.0]).await
}

pub(super) async fn touch_token(pool: &SessionPool, id: AccessTokenId) -> Result<(), Error> {
    const TOUCH: &str = "UPDATE noetl.token SET last_used_at = noetl.micros() WHERE id = $1";
    execute(pool, TOUCH, &[&id.0]).await
}

pub(super) async fn audit(pool: &SessionPool, entry: &AuditEntry) -> Result<(), Error> {
    let entry = serde_json::to_string(entry).expect("plain data serializes to JSON");
    // If the reply is lost, the entry may be written twice, but is never missing.
    execute(pool, "SELECT noetl.append_audit($1)", &[&entry]).await
}

pub(super) async fn audit_entries(pool: &SessionPool, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
    const PAGE: &str = "SELECT id, at, body, hash FROM noetl.audit WHERE id > $1 ORDER BY id LIMIT $2";
    query_rows(pool, PAGE, &[&to_i64(after), &to_i64(limit as u64)], read_row).await
}

pub(super) async fn setting(pool: &SessionPool, key: &str) -> Result<Option<String>, Error> {
    const ONE: &str = "SELECT value FROM noetl.setting WHERE key = $1";
    query_row(pool, ONE, &[&key], |row| Ok(row.try_get(0)?)).await
}

/// The value that a concurrent process sets is not visible to the losing INSERT, so a second statement reads it.
pub(super) async fn set_setting_once(pool: &SessionPool, key: &str, value: &str) -> Result<String, Error> {
    const SET: &str = "INSERT INTO noetl.setting (key, value, retained_from)
        VALUES ($1, $2, CASE WHEN $3 THEN noetl.micros() END) ON CONFLICT DO NOTHING";
    execute(pool, SET, &[&key, &value, &has_retention(key)]).await?;
    let stored = setting(pool, key).await?;
    stored.ok_or_else(|| Error::Unavailable("a setting disappeared".into()))
}

/// Returns only transactions older than every open one, so that no earlier row can appear later.
pub(super) async fn outbox(pool: &SessionPool, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
    const WAITING: &str = "SELECT xid::text::bigint, execution_id, seq_first, seq_last FROM (
            SELECT xid, execution_id, seq_first, seq_last FROM noetl.outbox
            WHERE xid > $1::text::xid8 AND xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY xid FETCH FIRST ($2::bigint) ROWS WITH TIES
        ) AS waiting ORDER BY xid, execution_id, seq_first";
    query_rows(pool, WAITING, &[&after.to_string(), &to_i64(limit as u64)], read_row).await
}

pub(super) async fn mark_published(pool: &SessionPool, upto: u64) -> Result<(), Error> {
    const DONE: &str = "DELETE FROM noetl.outbox WHERE xid <= $1::text::xid8";
    execute(pool, DONE, &[&upto.to_string()]).await
}

pub(super) async fn worker_claims(pool: &SessionPool, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error> {
    // Two bounds and an order instead of `=` make the planner use the index of claimed commands.
    const CLAIMED: &str = "SELECT c.execution_id, c.seq, c.lease_epoch, e.status = 'PAUSED',
            e.cancelling OR e.status NOT IN ('RUNNING', 'PAUSED'), coalesce(c.claimed_at, c.issued_at)
        FROM noetl.command c CROSS JOIN LATERAL (
            SELECT status, cancelling FROM noetl.execution WHERE execution_id = c.execution_id OFFSET 0
        ) AS e
        WHERE c.worker >= $1 AND c.worker <= $1 AND c.claimed_at IS DISTINCT FROM 0 ORDER BY c.worker";
    let mut claims: Vec<WorkerClaim> = query_rows(pool, CLAIMED, &[&&*worker.0], read_row).await?;
    claims.sort_by_key(|claims| (claims.claimed_at, claims.claim.command));
    Ok(claims)
}

fn read_process(row: &Row) -> Result<StoreProcess, QueryError> {
    Ok(StoreProcess {
        owner: owner_id(row.try_get(0)?),
        address: row.try_get(1)?,
        is_alive: row.try_get(2)?,
        publishes: row.try_get(3)?,
        heartbeat_at: row.optional_time(4)?,
    })
}

pub(super) async fn processes(pool: &SessionPool, now: Time) -> Result<Vec<StoreProcess>, Error> {
    const PEERS: &str = "SELECT owner, address, abs(heartbeat - $1) < 3000000, publishes, heartbeat
        FROM noetl.runtime ORDER BY started_at, node";
    query_rows(pool, PEERS, &[&now.0], read_process).await
}

pub(super) async fn owner_of(pool: &SessionPool, id: ExecutionId, now: Time) -> Result<Option<StoreProcess>, Error> {
    const OWNER: &str = "SELECT e.owner, r.address, coalesce(abs(r.heartbeat - $2) < 3000000, false),
            coalesce(r.publishes, false), r.heartbeat
        FROM noetl.execution e LEFT JOIN noetl.runtime r ON r.owner = e.owner
        WHERE e.execution_id = $1 AND e.owner IS NOT NULL";
    query_row(pool, OWNER, &[&id.0, &now.0], read_process).await
}
