//! Removes rows whose retention has passed, a bounded number of each kind at a time.

use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::rows::{OldRows, RemovedRows};
use crate::sqlite::rows::query_rows;
use crate::sqlite::writer::WriteError;
use crate::store::{BATCH_END_PREFIX, BATCH_PREFIX, DEDUP_PREFIX};

/// A setting whose retention has passed according to its row.
struct OldSetting {
    key: String,
    value: String,
}

pub(super) fn remove_old(db: &Connection, old: OldRows, now: Time) -> Result<RemovedRows, WriteError> {
    // Workers with claims are listed once, because no index finds the commands of a worker.
    let sessions = db.execute(
        "DELETE FROM session WHERE worker IN (
            SELECT s.worker FROM session s WHERE s.expires_at < ?1
                AND s.worker NOT IN (SELECT c.worker FROM command c WHERE c.worker IS NOT NULL)
            LIMIT ?2)",
        params![old.sessions_before.0, old.limit],
    )?;
    let from_outside = db.execute(
        "DELETE FROM message WHERE ordinal IN (
            SELECT m.ordinal FROM message m WHERE m.body IS NULL AND m.seq = 0 AND m.consumed_at < ?1
            ORDER BY m.consumed_at LIMIT ?2)",
        params![old.requests_before.0, old.limit],
    )?;
    let between_executions = db.execute(
        "DELETE FROM message WHERE ordinal IN (
            SELECT m.ordinal FROM message m WHERE m.body IS NULL AND m.seq > 0 AND m.consumed_at < ?1
            ORDER BY m.consumed_at LIMIT ?2)",
        params![old.messages_before.0, old.limit],
    )?;
    let mut rows = remove_settings(db, old, now)?;
    rows.removed += (sessions + from_outside + between_executions + remove_waits(db, old)?) as u64;
    Ok(rows)
}

/// Removes signals that no task took, and waits that a successful end left, of executions that ended long ago.
fn remove_waits(db: &Connection, old: OldRows) -> rusqlite::Result<usize> {
    let mut removed = 0;
    for table in ["early_signal", "pending_wait"] {
        let sql = format!(
            "DELETE FROM {table} WHERE execution_id IN (
                SELECT DISTINCT t.execution_id FROM {table} t JOIN execution e USING (execution_id)
                WHERE e.finished_at < ?1 LIMIT ?2)"
        );
        removed += db.execute(&sql, params![old.requests_before.0, old.limit])?;
    }
    Ok(removed)
}

fn remove_settings(db: &Connection, old: OldRows, now: Time) -> Result<RemovedRows, WriteError> {
    let mut rows = RemovedRows::default();
    for setting in old_settings(db, old)? {
        if setting.key.starts_with(DEDUP_PREFIX) && postpone(db, &setting, old.requests_before, now)? {
            rows.postponed += 1;
            continue;
        }
        if let Some(request_id) = setting.key.strip_prefix(BATCH_END_PREFIX) {
            remove_setting(db, &format!("{BATCH_PREFIX}{request_id}"))?;
        }
        remove_setting(db, &setting.key)?;
        rows.removed += 1;
    }
    Ok(rows)
}

fn old_settings(db: &Connection, old: OldRows) -> rusqlite::Result<Vec<OldSetting>> {
    let sql = "SELECT key, value FROM setting WHERE retained_from < ?1 ORDER BY retained_from LIMIT ?2";
    query_rows(db, sql, params![old.requests_before.0, old.limit], |row| {
        Ok(OldSetting {
            key: row.get(0)?,
            value: row.get(1)?,
        })
    })
}

/// Postpones the retention of a `dedup` key, which starts when its execution ends. Returns whether it was postponed.
fn postpone(db: &Connection, setting: &OldSetting, before: Time, now: Time) -> rusqlite::Result<bool> {
    let finished_at: Option<Option<i64>> = db
        .prepare_cached("SELECT finished_at FROM execution WHERE execution_id = CAST(?1 AS INTEGER)")?
        .query_row([&setting.value], |row| row.get(0))
        .optional()?;
    let Some(finished_at) = finished_at else {
        return Ok(false);
    };
    if finished_at.is_some_and(|finished_at| finished_at < before.0) {
        return Ok(false);
    }
    db.prepare_cached("UPDATE setting SET retained_from = ?2 WHERE key = ?1")?
        .execute(params![setting.key, finished_at.unwrap_or(now.0)])?;
    Ok(true)
}

fn remove_setting(db: &Connection, key: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM setting WHERE key = ?1")?
        .execute([key])?;
    Ok(())
}
