//! Access tokens, the audit log, settings, the outbox, claimed commands and owners.

use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::access::{
    AccessId, AuditEntry, AuditRow, Held, OutboxRow, Peer, TokenRow, link, sealed,
};
use crate::rows::OwnerId;
use crate::sqlite::owners::Owners;
use crate::sqlite::read::Fault;
use crate::sqlite::rows::{integer, json, text_of, unsigned};
use crate::sqlite::writer::Refused;
use crate::store::has_retention;

const TOKEN: &str = "id, name, hash, role, created_at, expires_at, last_used_at, revoked_at";

pub(super) fn put_token(db: &Connection, token: &TokenRow) -> Result<(), Refused> {
    let sql =
        format!("INSERT OR REPLACE INTO token ({TOKEN}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
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

pub(super) fn token_by_hash(db: &Connection, hash: &[u8; 32]) -> Result<Option<TokenRow>, Fault> {
    let mut statement = db.prepare_cached(&format!("SELECT {TOKEN} FROM token WHERE hash = ?1"))?;
    Ok(statement.query_row([hash], token).optional()?)
}

pub(super) fn tokens(db: &Connection) -> Result<Vec<TokenRow>, Fault> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {TOKEN} FROM token ORDER BY created_at, id"
    ))?;
    let found = statement.query_map([], token)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    let time =
        |column: usize| -> rusqlite::Result<_> { Ok(row.get::<_, Option<i64>>(column)?.map(Time)) };
    Ok(TokenRow {
        id: AccessId(row.get(0)?),
        name: row.get(1)?,
        hash: row.get(2)?,
        role: row.get_ref(3)?.as_str()?.into(),
        created_at: Time(row.get(4)?),
        expires_at: time(5)?,
        last_used_at: time(6)?,
        revoked_at: time(7)?,
    })
}

pub(super) fn revoke_token(db: &Connection, id: AccessId, now: Time) -> Result<(), Refused> {
    db.prepare_cached("UPDATE token SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1")?
        .execute(params![id.0, now.0])?;
    Ok(())
}

pub(super) fn touch_token(db: &Connection, id: AccessId, now: Time) -> Result<(), Refused> {
    db.prepare_cached("UPDATE token SET last_used_at = ?2 WHERE id = ?1")?
        .execute(params![id.0, now.0])?;
    Ok(())
}

pub(super) fn audit(db: &Connection, entry: &AuditEntry, at: Time) -> Result<(), Refused> {
    let last: Option<(i64, [u8; 32])> = db
        .prepare_cached("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (id, before) = last.unwrap_or((0, AuditRow::START));
    let id = u64::try_from(id).unwrap_or(0) + 1;
    let hash = link(&before, &sealed(id, at, entry));
    db.prepare_cached("INSERT INTO audit (id, at, body, hash) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![integer(id), at.0, text_of(entry), hash])?;
    Ok(())
}

pub(super) fn audit_entries(
    db: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<AuditRow>, Fault> {
    let mut statement = db.prepare_cached(
        "SELECT id, at, body, hash FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let found = statement.query_map(params![integer(after), integer(limit as u64)], |row| {
        Ok(AuditRow {
            id: unsigned(row, 0)?,
            at: Time(row.get(1)?),
            entry: json(row, 2)?,
            hash: row.get(3)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn setting(db: &Connection, key: &str) -> Result<Option<String>, Fault> {
    let mut statement = db.prepare_cached("SELECT value FROM setting WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

pub(super) fn set_setting_once(
    db: &Connection,
    key: &str,
    value: &str,
    now: Time,
) -> Result<String, Refused> {
    let retained_from = has_retention(key).then_some(now.0);
    db.prepare_cached(
        "INSERT INTO setting (key, value, retained_from) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute(params![key, value, retained_from])?;
    let kept = db
        .prepare_cached("SELECT value FROM setting WHERE key = ?1")?
        .query_row([key], |row| row.get(0))?;
    Ok(kept)
}

pub(super) fn outbox(db: &Connection, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Fault> {
    let mut statement = db.prepare_cached(
        "SELECT position, execution_id, seq_first, seq_last FROM outbox WHERE position > ?1 ORDER BY position LIMIT ?2",
    )?;
    let found = statement.query_map(params![integer(after), integer(limit as u64)], |row| {
        Ok(OutboxRow {
            position: unsigned(row, 0)?,
            execution: ExecutionId(row.get(1)?),
            seq_first: Seq(unsigned(row, 2)?),
            seq_last: Seq(unsigned(row, 3)?),
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn outbox_done(db: &Connection, upto: u64) -> Result<(), Refused> {
    db.prepare_cached("DELETE FROM outbox WHERE position <= ?1")?
        .execute([integer(upto)])?;
    Ok(())
}

pub(super) fn held(db: &Connection, worker: &WorkerId) -> Result<Vec<Held>, Fault> {
    let mut statement = db.prepare_cached(
        "SELECT c.execution_id, c.seq, c.lease_epoch, e.status = 'PAUSED',
             e.cancelling OR e.status NOT IN ('RUNNING', 'PAUSED'), coalesce(c.claimed_at, c.issued_at)
         FROM command c JOIN execution e USING (execution_id)
         WHERE c.worker = ?1 AND c.claimed_at IS NOT 0 ORDER BY 6, c.execution_id, c.seq",
    )?;
    let found = statement.query_map([&*worker.0], |row| {
        Ok(Held {
            command: CommandId {
                execution: ExecutionId(row.get(0)?),
                seq: Seq(unsigned(row, 1)?),
            },
            lease_epoch: LeaseEpoch(u64::from(row.get::<_, u32>(2)?)),
            paused: row.get(3)?,
            cancelling: row.get(4)?,
            claimed_at: Time(row.get(5)?),
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn owner_of(
    db: &Connection,
    owners: &Owners,
    id: ExecutionId,
) -> Result<Option<Peer>, Fault> {
    let owner: Option<Option<String>> = db
        .prepare_cached("SELECT owner FROM execution WHERE execution_id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    let owner = owner.flatten().map(|owner| OwnerId(owner.into()));
    Ok(owner.map(|owner| Peer {
        alive: owners.is_alive(&owner),
        address: None,
        owner,
    }))
}
