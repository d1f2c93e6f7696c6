//! Access tokens, the audit log, settings, the outbox, claimed commands and owners.

use model::id::{ExecutionId, WorkerId};
use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::access::{
    AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim, chain_hash, hashed_text,
};
use crate::rows::OwnerId;
use crate::sqlite::owner_locks::OwnerLocks;
use crate::sqlite::queries::ReadError;
use crate::sqlite::rows::{query_row, query_rows, read_row, to_i64, to_json_text};
use crate::sqlite::writer::WriteError;
use crate::store::has_retention;

const TOKEN: &str = "id, name, hash, role, created_at, expires_at, last_used_at, revoked_at";

pub(super) fn put_token(db: &Connection, token: &AccessTokenRow) -> Result<(), WriteError> {
    let sql = format!("INSERT OR REPLACE INTO token ({TOKEN}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    db.prepare_cached(&sql)?.execute(params![
        token.id.0,
        token.name,
        token.hash,
        token.role.as_str(),
        token.created_at.0,
        token.expires_at.map(|time| time.0),
        token.last_used_at.map(|time| time.0),
        token.revoked_at.map(|time| time.0),
    ])?;
    Ok(())
}

pub(super) fn token_by_hash(db: &Connection, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, ReadError> {
    let sql = format!("SELECT {TOKEN} FROM token WHERE hash = ?1");
    Ok(query_row(db, &sql, [hash], read_row)?)
}

pub(super) fn tokens(db: &Connection) -> Result<Vec<AccessTokenRow>, ReadError> {
    let sql = format!("SELECT {TOKEN} FROM token ORDER BY created_at, id");
    Ok(query_rows(db, &sql, [], read_row)?)
}

pub(super) fn revoke_token(db: &Connection, id: AccessTokenId, now: Time) -> Result<(), WriteError> {
    db.prepare_cached("UPDATE token SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1")?
        .execute(params![id.0, now.0])?;
    Ok(())
}

pub(super) fn touch_token(db: &Connection, id: AccessTokenId, now: Time) -> Result<(), WriteError> {
    db.prepare_cached("UPDATE token SET last_used_at = ?2 WHERE id = ?1")?
        .execute(params![id.0, now.0])?;
    Ok(())
}

pub(super) fn audit(db: &Connection, entry: &AuditEntry, recorded_at: Time) -> Result<(), WriteError> {
    let last: Option<(i64, [u8; 32])> = db
        .prepare_cached("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (id, before) = last.unwrap_or((0, AuditRow::START));
    let id = u64::try_from(id).unwrap_or(0) + 1;
    let hash = chain_hash(&before, &hashed_text(id, recorded_at, entry));
    db.prepare_cached("INSERT INTO audit (id, at, body, hash) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![to_i64(id), recorded_at.0, to_json_text(entry), hash])?;
    Ok(())
}

pub(super) fn audit_entries(db: &Connection, after: u64, limit: usize) -> Result<Vec<AuditRow>, ReadError> {
    const PAGE: &str = "SELECT id, at, body, hash FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2";
    Ok(query_rows(
        db,
        PAGE,
        params![to_i64(after), to_i64(limit as u64)],
        read_row,
    )?)
}

pub(super) fn setting(db: &Connection, key: &str) -> Result<Option<String>, ReadError> {
    let sql = "SELECT value FROM setting WHERE key = ?1";
    Ok(query_row(db, sql, [key], |row| row.get(0))?)
}

pub(super) fn set_setting_once(db: &Connection, key: &str, value: &str, now: Time) -> Result<String, WriteError> {
    let retained_from = has_retention(key).then_some(now.0);
    db.prepare_cached("INSERT INTO setting (key, value, retained_from) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![key, value, retained_from])?;
    let stored = db
        .prepare_cached("SELECT value FROM setting WHERE key = ?1")?
        .query_row([key], |row| row.get(0))?;
    Ok(stored)
}

pub(super) fn outbox(db: &Connection, after: u64, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
    const WAITING: &str = "SELECT position, execution_id, seq_first, seq_last FROM outbox
         WHERE position > ?1 ORDER BY position LIMIT ?2";
    Ok(query_rows(
        db,
        WAITING,
        params![to_i64(after), to_i64(limit as u64)],
        read_row,
    )?)
}

pub(super) fn mark_published(db: &Connection, upto: u64) -> Result<(), WriteError> {
    db.prepare_cached("DELETE FROM outbox WHERE position <= ?1")?
        .execute([to_i64(upto)])?;
    Ok(())
}

pub(super) fn worker_claims(db: &Connection, worker: &WorkerId) -> Result<Vec<WorkerClaim>, ReadError> {
    const CLAIMED: &str = "SELECT c.execution_id, c.seq, c.lease_epoch, e.status = 'PAUSED',
             e.cancelling OR e.status NOT IN ('RUNNING', 'PAUSED'), coalesce(c.claimed_at, c.issued_at)
         FROM command c JOIN execution e USING (execution_id)
         WHERE c.worker = ?1 AND c.claimed_at IS NOT 0 ORDER BY 6, c.execution_id, c.seq";
    Ok(query_rows(db, CLAIMED, [&*worker.0], read_row)?)
}

pub(super) fn owner_of(
    db: &Connection,
    owners: &OwnerLocks,
    id: ExecutionId,
) -> Result<Option<StoreProcess>, ReadError> {
    let owner: Option<Option<String>> = db
        .prepare_cached("SELECT owner FROM execution WHERE execution_id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    let owner = owner.flatten().map(|owner| OwnerId(owner.into()));
    Ok(owner.map(|owner| owners.process(owner)))
}
