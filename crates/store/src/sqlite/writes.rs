//! Writes that are not commits: claims, sessions, messages, the catalog, ownership, rebuilds.

use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::columns::owner_name;
use crate::commit::MessageKey;
use crate::error::Error;
use crate::projections::ProjectionDelta;
use crate::rows::{
    Adoption, CatalogEntry, ClaimQuery, CommandClaim, ExecutionRow, OwnerId, RebuildStats, SessionHolder,
};
use crate::sqlite::access::set_setting_once;
use crate::sqlite::iterations;
use crate::sqlite::owner_locks::OwnerLocks;
use crate::sqlite::queries::{self, ReadError};
use crate::sqlite::rows::{execution_row, read_row, to_i64, to_json_text, update_execution, write_projection};
use crate::sqlite::writer::WriteError;
use crate::store::refusal_key;

pub(super) fn claim(db: &Connection, query: &ClaimQuery, now: Time) -> Result<Vec<CommandClaim>, WriteError> {
    let mut pending = db.prepare_cached(
        "SELECT c.body, c.lease_epoch FROM command c JOIN execution e USING (execution_id)
         WHERE c.worker IS NULL AND c.pool = ?1 AND e.status = 'RUNNING' AND e.cancelling = 0
           AND (?2 IS NULL OR e.owner = ?2)
           AND (?4 IS NULL OR c.kinds = '[]' OR NOT EXISTS (
               SELECT 1 FROM json_each(c.kinds) AS needed
               WHERE needed.value NOT IN (SELECT served.value FROM json_each(?4) AS served)))
         ORDER BY c.issued_at, c.execution_id, c.seq LIMIT ?3",
    )?;
    let owner = owner_name(query.owner.as_ref());
    let kinds = query.kinds.as_ref().map(to_json_text);
    let mut claims: Vec<CommandClaim> = pending
        .query_map(params![query.pool.as_str(), owner, query.max, kinds], read_row)?
        .collect::<rusqlite::Result<_>>()?;
    let mut take = db.prepare_cached(
        "UPDATE command SET worker = ?3, lease_epoch = ?4, claimed_at = ?5 WHERE execution_id = ?1 AND seq = ?2",
    )?;
    for claim in &mut claims {
        claim.lease_epoch.0 += 1;
        let id = claim.command.id;
        take.execute(params![
            id.execution.0,
            to_i64(id.seq.0),
            &*query.worker.0,
            to_i64(claim.lease_epoch.0),
            now.0
        ])?;
    }
    Ok(claims)
}

pub(super) fn release(db: &Connection, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), WriteError> {
    db.prepare_cached("UPDATE command SET worker = NULL WHERE execution_id = ?1 AND seq = ?2 AND lease_epoch = ?3")?
        .execute(params![
            command.execution.0,
            to_i64(command.seq.0),
            to_i64(lease_epoch.0)
        ])?;
    Ok(())
}

pub(super) fn renew_session(
    db: &Connection,
    worker: &WorkerId,
    holder: &SessionHolder,
    expires_at: Time,
) -> Result<bool, WriteError> {
    let changed = db
        .prepare_cached(
            "INSERT INTO session (worker, expires_at, holder) VALUES (?1, ?2, ?3)
             ON CONFLICT (worker) DO UPDATE SET expires_at = excluded.expires_at, holder = excluded.holder
             WHERE session.holder IS NULL OR session.holder = excluded.holder",
        )?
        .execute(params![&*worker.0, expires_at.0, &*holder.0])?;
    Ok(changed > 0)
}

pub(super) fn replace_session(
    db: &Connection,
    worker: &WorkerId,
    replaced: &SessionHolder,
    holder: &SessionHolder,
    expires_at: Time,
) -> Result<bool, WriteError> {
    let changed = db
        .prepare_cached("UPDATE session SET holder = ?3, expires_at = ?4 WHERE worker = ?1 AND holder = ?2")?
        .execute(params![&*worker.0, &*replaced.0, &*holder.0, expires_at.0])?;
    if changed > 0 {
        // A `claimed_at` of 0 marks a claim of a replaced session.
        db.prepare_cached("UPDATE command SET claimed_at = 0 WHERE worker = ?1")?
            .execute([&*worker.0])?;
    }
    Ok(changed > 0)
}

pub(super) fn put_playbook(db: &Connection, path: &str, text: &str, now: Time) -> Result<CatalogEntry, WriteError> {
    let hash = PlaybookHash::from_text(text);
    let latest = queries::catalog_entry(db, path, None)?;
    if let Some(same) = latest.clone().filter(|entry| entry.hash == hash) {
        return Ok(same);
    }
    let entry = CatalogEntry::new_version(latest.as_ref(), path, text, now);
    db.prepare_cached("INSERT INTO catalog (path, version, hash, text, registered_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![path, entry.version, &*entry.hash.0, text, now.0])?;
    Ok(entry)
}

pub(super) fn adopt(
    db: &Connection,
    owners: &OwnerLocks,
    id: ExecutionId,
    new_owner: &OwnerId,
) -> Result<Adoption, WriteError> {
    let owner: Option<Option<String>> = db
        .prepare_cached("SELECT owner FROM execution WHERE execution_id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    match owner.map(|owner| owner.map(|owner| OwnerId(owner.into()))) {
        None => Ok(Adoption::NotFound),
        Some(Some(owner)) if owner == *new_owner => Ok(Adoption::Owned),
        Some(Some(owner)) if owners.is_alive(&owner) => Ok(Adoption::OwnedBy(owner)),
        Some(_) => {
            db.prepare_cached("UPDATE execution SET owner = ?2 WHERE execution_id = ?1")?
                .execute(params![id.0, &*new_owner.0])?;
            Ok(Adoption::Owned)
        }
    }
}

/// Consumes a message and stores the refusal.
pub(super) fn refuse_message(db: &Connection, key: MessageKey, reply: &str, now: Time) -> Result<(), WriteError> {
    if withdraw_message(db, key, now)? {
        set_setting_once(db, &refusal_key(key), reply, now)?;
    }
    Ok(())
}

/// Withdraws a message. Returns whether it was pending.
pub(super) fn withdraw_message(db: &Connection, key: MessageKey, now: Time) -> rusqlite::Result<bool> {
    let withdrawn = db
        .prepare_cached(
            "UPDATE message SET body = NULL, consumed_at = ?4
             WHERE from_id = ?1 AND seq = ?2 AND n = ?3 AND body IS NOT NULL",
        )?
        .execute(params![key.from.0, to_i64(key.seq.0), key.n, now.0])?;
    Ok(withdrawn > 0)
}

/// Drops the projections and rebuilds them from the whole log.
pub(super) fn rebuild(db: &Connection) -> Result<RebuildStats, WriteError> {
    db.execute_batch(
        "DELETE FROM step_state; DELETE FROM result_index; DELETE FROM execution_label; DELETE FROM loop_progress;
         DELETE FROM loop_task; DELETE FROM iteration_index; DELETE FROM iteration_span;
         DELETE FROM pending_wait; DELETE FROM early_signal;",
    )?;
    let mut rebuilt = RebuildStats::default();
    let ids: Vec<i64> = db
        .prepare("SELECT execution_id FROM execution ORDER BY execution_id")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for id in ids {
        rebuilt.events += rebuild_one(db, ExecutionId(id))?;
        rebuilt.executions += 1;
    }
    Ok(rebuilt)
}

fn rebuild_one(db: &Connection, id: ExecutionId) -> Result<u64, WriteError> {
    /// Events read at a time.
    const PAGE: usize = 2_000;
    let before = execution_row(db, id)?.expect("the ID was just read in this transaction");
    let mut row: Option<ExecutionRow> = None;
    let mut last = Seq(0);
    loop {
        let events = queries::events(db, id, last, PAGE).map_err(|error| into_write_error(db, error))?;
        let Some(end) = events.last() else { break };
        last = end.seq;
        let delta = ProjectionDelta::from_events(&events);
        write_projection(db, id, &delta)?;
        ExecutionRow::rebuild(&mut row, &before, &events, &delta);
    }
    if let Some(row) = row {
        update_execution(db, &row)?;
    }
    iterations::rebuild(db, id).map_err(|error| into_write_error(db, error))?;
    Ok(last.0)
}

fn into_write_error(db: &Connection, read_error: ReadError) -> WriteError {
    match read_error {
        ReadError::Sqlite(error) => WriteError::Group(error),
        ReadError::Damaged(source) => WriteError::Job(Error::Corrupt {
            file: db.path().unwrap_or_default().into(),
            source,
        }),
    }
}
