//! Access tokens, the audit log, settings, the outbox, claimed commands and owners. Each operation is one statement.

use model::id::{ExecutionId, LeaseEpoch, WorkerId};
use model::time::Time;
use tokio_postgres::Row;

use crate::access::{AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow};
use crate::error::Error;
use crate::postgres::failure::Fault;
use crate::postgres::pool::{Pool, Twice, Values};
use crate::postgres::read::{find, find_one};
use crate::postgres::rows::{command_id, count, integer, owner_id, parsed, seq, unsigned};
use crate::store::has_retention;

async fn run(pool: &Pool, sql: &'static str, values: Values<'_>) -> Result<(), Error> {
    pool.query(Twice::Harmless, sql, values).await.map(drop)
}

pub(super) async fn put_token(pool: &Pool, token: &TokenRow) -> Result<(), Error> {
    const PUT: &str = "INSERT INTO noetl.token
            (id, name, hash, role, created_at, expires_at, last_used_at, revoked_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, hash = excluded.hash, role = excluded.role,
            created_at = excluded.created_at, expires_at = excluded.expires_at,
            last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at";
    let values: Values<'_> = &[
        &token.id.0,
        &token.name,
        &&token.hash[..],
        &token.role.as_str(),
        &token.created_at.0,
        &token.expires_at.map(|time| time.0),
        &token.last_used_at.map(|time| time.0),
        &token.revoked_at.map(|time| time.0),
    ];
    run(pool, PUT, values).await
}

pub(super) async fn token_by_hash(pool: &Pool, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
    const ONE: &str =
        "SELECT id, name, hash, role, created_at, expires_at, last_used_at, revoked_at
        FROM noetl.token WHERE hash = $1";
    find_one(pool, ONE, &[&&hash[..]], token).await
}

pub(super) async fn tokens(pool: &Pool) -> Result<Vec<TokenRow>, Error> {
    const ALL: &str =
        "SELECT id, name, hash, role, created_at, expires_at, last_used_at, revoked_at
        FROM noetl.token ORDER BY created_at, id";
    find(pool, ALL, &[], token).await
}

fn hash(row: &Row, column: usize) -> Result<[u8; 32], Fault> {
    let bytes: &[u8] = row.try_get(column)?;
    let hash = bytes.try_into();
    hash.map_err(|_| Fault::Row("a stored hash does not have 32 bytes".into()))
}

fn token(row: &Row) -> Result<TokenRow, Fault> {
    let time = |column: usize| -> Result<_, Fault> {
        Ok(row.try_get::<_, Option<i64>>(column)?.map(Time))
    };
    Ok(TokenRow {
        id: AccessId(row.try_get(0)?),
        name: row.try_get(1)?,
        hash: hash(row, 2)?,
        role: row.try_get::<_, &str>(3)?.into(),
        created_at: Time(row.try_get(4)?),
        expires_at: time(5)?,
        last_used_at: time(6)?,
        revoked_at: time(7)?,
    })
}

pub(super) async fn revoke_token(pool: &Pool, id: AccessId) -> Result<(), Error> {
    const REVOKE: &str =
        "UPDATE noetl.token SET revoked_at = coalesce(revoked_at, noetl.micros()) WHERE id = $1";
    run(pool, REVOKE, &[&id.0]).await
}

pub(super) async fn touch_token(pool: &Pool, id: AccessId) -> Result<(), Error> {
    const TOUCH: &str = "UPDATE noetl.token SET last_used_at = noetl.micros() WHERE id = $1";
    run(pool, TOUCH, &[&id.0]).await
}

pub(super) async fn audit(pool: &Pool, entry: &AuditEntry) -> Result<(), Error> {
    let entry = serde_json::to_string(entry).expect("plain data serializes to JSON");
    // If the reply is lost, the entry may be written twice, but is never missing.
    run(pool, "SELECT noetl.append_audit($1)", &[&entry]).await
}

pub(super) async fn audit_entries(
    pool: &Pool,
    after: u64,
    limit: usize,
) -> Result<Vec<AuditRow>, Error> {
    const PAGE: &str =
        "SELECT id, at, body, hash FROM noetl.audit WHERE id > $1 ORDER BY id LIMIT $2";
    let read = |row: &Row| {
        Ok(AuditRow {
            id: unsigned(row, 0)?,
            at: Time(row.try_get(1)?),
            entry: parsed(row.try_get(2)?)?,
            hash: hash(row, 3)?,
        })
    };
    find(pool, PAGE, &[&integer(after), &integer(limit as u64)], read).await
}

pub(super) async fn setting(pool: &Pool, key: &str) -> Result<Option<String>, Error> {
    const ONE: &str = "SELECT value FROM noetl.setting WHERE key = $1";
    find_one(pool, ONE, &[&key], |row| Ok(row.try_get(0)?)).await
}

/// The value that a concurrent process sets is not visible to the losing INSERT, so a second statement reads it.
pub(super) async fn set_setting_once(pool: &Pool, key: &str, value: &str) -> Result<String, Error> {
    const SET: &str = "INSERT INTO noetl.setting (key, value, retained_from)
        VALUES ($1, $2, CASE WHEN $3 THEN noetl.micros() END) ON CONFLICT DO NOTHING";
    run(pool, SET, &[&key, &value, &has_retention(key)]).await?;
    let kept = setting(pool, key).await?;
    kept.ok_or_else(|| Error::Unavailable("a setting disappeared".into()))
}

/// Returns only transactions older than every open one, so that no earlier row can appear later.
pub(super) async fn outbox(pool: &Pool, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
    const WAITING: &str = "SELECT xid::text::bigint, execution_id, seq_first, seq_last FROM (
            SELECT xid, execution_id, seq_first, seq_last FROM noetl.outbox
            WHERE xid > $1::text::xid8 AND xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY xid FETCH FIRST ($2::bigint) ROWS WITH TIES
        ) AS waiting ORDER BY xid, execution_id, seq_first";
    let read = |row: &Row| {
        Ok(OutboxRow {
            position: unsigned(row, 0)?,
            execution: ExecutionId(row.try_get(1)?),
            seq_first: seq(row, 2)?,
            seq_last: seq(row, 3)?,
        })
    };
    find(
        pool,
        WAITING,
        &[&after.to_string(), &integer(limit as u64)],
        read,
    )
    .await
}

pub(super) async fn outbox_done(pool: &Pool, upto: u64) -> Result<(), Error> {
    const DONE: &str = "DELETE FROM noetl.outbox WHERE xid <= $1::text::xid8";
    run(pool, DONE, &[&upto.to_string()]).await
}

pub(super) async fn held(pool: &Pool, worker: &WorkerId) -> Result<Vec<Held>, Error> {
    // Two bounds and an order instead of `=` make the planner use the index of claimed commands.
    const HELD: &str = "SELECT c.execution_id, c.seq, c.lease_epoch, e.status = 'PAUSED',
            e.cancelling OR e.status NOT IN ('RUNNING', 'PAUSED'), coalesce(c.claimed_at, c.issued_at)
        FROM noetl.command c CROSS JOIN LATERAL (
            SELECT status, cancelling FROM noetl.execution WHERE execution_id = c.execution_id OFFSET 0
        ) AS e
        WHERE c.worker >= $1 AND c.worker <= $1 AND c.claimed_at IS DISTINCT FROM 0 ORDER BY c.worker";
    let read = |row: &Row| {
        Ok(Held {
            command: command_id(row)?,
            lease_epoch: LeaseEpoch(u64::from(count(row, 2)?)),
            paused: row.try_get(3)?,
            cancelling: row.try_get(4)?,
            claimed_at: Time(row.try_get(5)?),
        })
    };
    let mut held = find(pool, HELD, &[&&*worker.0], read).await?;
    held.sort_by_key(|held| (held.claimed_at, held.command));
    Ok(held)
}

fn peer(row: &Row) -> Result<Peer, Fault> {
    Ok(Peer {
        owner: owner_id(row.try_get(0)?),
        address: row.try_get(1)?,
        alive: row.try_get(2)?,
    })
}

pub(super) async fn peers(pool: &Pool, now: Time) -> Result<Vec<Peer>, Error> {
    const PEERS: &str = "SELECT owner, address, abs(heartbeat - $1) < 3000000
        FROM noetl.runtime ORDER BY started_at, node";
    find(pool, PEERS, &[&now.0], peer).await
}

pub(super) async fn owner_of(
    pool: &Pool,
    id: ExecutionId,
    now: Time,
) -> Result<Option<Peer>, Error> {
    const OWNER: &str =
        "SELECT e.owner, r.address, coalesce(abs(r.heartbeat - $2) < 3000000, false)
        FROM noetl.execution e LEFT JOIN noetl.runtime r ON r.owner = e.owner
        WHERE e.execution_id = $1 AND e.owner IS NOT NULL";
    find_one(pool, OWNER, &[&id.0, &now.0], peer).await
}
