//! Queries. Each runs in a read transaction on its own connection and takes no lock.

use std::collections::BTreeSet;

use model::event::{Event, EventHead, UniqueKey};
use model::id::{CommandId, EventId, ExecutionId, PlaybookHash, Seq, WorkerId};
use model::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use crate::columns::{Columns as _, owner_name, snapshot_checksum};
use crate::commit::{ExternalEventKey, Message, MessageKey};
use crate::damage::{DamagedRow, LogRowReader};
use crate::error::BoxError;
use crate::execution_filter::{
    ExecutionFilter, FACET_COLUMNS, FacetRow, FilterValue, ListStatement, SqlDialect, list_statement,
};
use crate::rows::{
    CatalogEntry, ExecutionRow, LostClaim, OpenCommand, OwnerId, ResultRow, Snapshot, StepState, StoredExecution,
    WorkerSession,
};
use crate::sqlite::owner_locks::OwnerLocks;
use crate::sqlite::rows::{self, EXECUTION_COLUMNS, query_row, query_rows, read_row, to_i64};
use crate::verify::Damage;

/// Why a read failed.
#[derive(Debug)]
pub(super) enum ReadError {
    /// An error of the database.
    Sqlite(rusqlite::Error),
    /// A row that was modified or is missing.
    Damaged(BoxError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<DamagedRow> for ReadError {
    fn from(damage: DamagedRow) -> Self {
        Self::Damaged(damage.into())
    }
}

const CATALOG: &str = "path, version, hash, text, registered_at";

pub(super) fn load(
    db: &Connection,
    id: ExecutionId,
    snapshot_version: u32,
) -> Result<Option<StoredExecution>, ReadError> {
    let Some(row) = execution(db, id)? else {
        return Ok(None);
    };
    let snapshot = read_snapshot(db, id, snapshot_version)?;
    let from = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
    Ok(Some(StoredExecution {
        row,
        tail: events(db, id, from, usize::MAX)?,
        snapshot,
    }))
}

/// An execution's row. A missing row is an error if the log contains the execution.
pub(super) fn execution(db: &Connection, id: ExecutionId) -> Result<Option<ExecutionRow>, ReadError> {
    let row = rows::execution_row(db, id)?;
    if row.is_none() {
        let mut logged = db.prepare_cached("SELECT 1 FROM log WHERE execution_id = ?1")?;
        if logged.exists([id.0])? {
            let message = format!("run {id} has a log but no row in `execution`");
            return Err(ReadError::Damaged(message.into()));
        }
    }
    Ok(row)
}

/// The snapshot, if its checksum matches. A damaged one is ignored, because the log has all data.
fn read_snapshot(db: &Connection, id: ExecutionId, version: u32) -> rusqlite::Result<Option<Snapshot>> {
    let blob = db
        .prepare_cached("SELECT seq, bytes, sha256 FROM snapshot WHERE execution_id = ?1 AND version = ?2")?
        .query_row(params![id.0, version], |row| {
            let snapshot = Snapshot {
                version,
                seq: row.seq(0)?,
                bytes: row.get(1)?,
            };
            Ok((snapshot, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()?;
    Ok(blob.and_then(|(snapshot, sha256)| (snapshot_checksum(&snapshot.bytes)[..] == sha256[..]).then_some(snapshot)))
}

pub(super) fn events(db: &Connection, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, ReadError> {
    let mut statement = db.prepare_cached(
        "SELECT seq_first, body FROM log WHERE execution_id = ?1 AND seq_last > ?2 ORDER BY seq_last",
    )?;
    let mut rows = statement.query(params![id.0, to_i64(after.0)])?;
    let mut events = Vec::new();
    let mut reading = LogRowReader::starting_after(id, after);
    while events.len() < limit {
        let Some(row) = rows.next()? else {
            if let Some(version) = version(db, id)? {
                reading.check_end(version)?;
            }
            break;
        };
        let unpacked = read_append(&mut reading, id, row)?;
        let limit_left = limit - events.len();
        events.extend(unpacked.into_iter().filter(|event| event.seq > after).take(limit_left));
    }
    Ok(events)
}

fn version(db: &Connection, id: ExecutionId) -> rusqlite::Result<Option<Seq>> {
    let sql = "SELECT version FROM execution WHERE execution_id = ?1";
    query_row(db, sql, [id.0], |row| row.seq(0))
}

/// Reads `seq_first, body` of a row of the log.
pub(super) fn read_append(reading: &mut LogRowReader, id: ExecutionId, row: &Row<'_>) -> Result<Vec<Event>, ReadError> {
    read_selected_events(reading, id, row, |_| true)
}

fn read_selected_events(
    reading: &mut LogRowReader,
    id: ExecutionId,
    row: &Row<'_>,
    is_selected: impl FnMut(EventHead<'_>) -> bool,
) -> Result<Vec<Event>, ReadError> {
    let first = row.seq(0)?;
    let body = row.get_ref(1)?.as_str();
    let body = body.map_err(|error| DamagedRow::new(id, first, error))?;
    Ok(reading.read_row(first, body, is_selected)?)
}

pub(super) fn events_at(db: &Connection, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, ReadError> {
    let wanted_seqs: BTreeSet<Seq> = seqs.iter().copied().collect();
    let mut events: Vec<Event> = Vec::with_capacity(wanted_seqs.len());
    let mut last = Seq(0);
    for seq in &wanted_seqs {
        if *seq > last {
            let is_selected = |head: EventHead<'_>| wanted_seqs.contains(&head.seq);
            let append = append_containing(db, id, *seq, is_selected)?;
            last = append.last;
            events.extend(append.events);
        }
    }
    Ok(events)
}

/// Some events of one append.
pub(super) struct AppendEvents {
    pub(super) events: Vec<Event>,
    /// The last event of the append. If there is no append, no event comes after it.
    pub(super) last: Seq,
}

/// The selected events of the append that contains a sequence number.
pub(super) fn append_containing(
    db: &Connection,
    id: ExecutionId,
    seq: Seq,
    is_selected: impl FnMut(EventHead<'_>) -> bool,
) -> Result<AppendEvents, ReadError> {
    let mut statement = db.prepare_cached(
        "SELECT seq_first, body, seq_last FROM log WHERE execution_id = ?1 AND seq_last >= ?2 ORDER BY seq_last LIMIT 1",
    )?;
    let mut rows = statement.query(params![id.0, to_i64(seq.0)])?;
    let Some(row) = rows.next()? else {
        return Ok(AppendEvents {
            events: Vec::new(),
            last: Seq(u64::MAX),
        });
    };
    let before = Seq(seq.0.saturating_sub(1));
    let events = read_selected_events(&mut LogRowReader::starting_after(id, before), id, row, is_selected)?;
    let last = row.seq(2)?;
    Ok(AppendEvents { events, last })
}

pub(super) fn external_events(
    db: &Connection,
    id: ExecutionId,
    event_ids: &[EventId],
) -> Result<Vec<ExternalEventKey>, ReadError> {
    let mut statement =
        db.prepare_cached("SELECT seq, hash FROM event_key WHERE execution_id = ?1 AND key = ?2 AND hash IS NOT NULL")?;
    let mut events = Vec::new();
    for event_id in event_ids {
        let key = UniqueKey::Event(*event_id).to_string();
        events.extend(
            statement
                .query_row(params![id.0, key], |row| {
                    Ok(ExternalEventKey {
                        event_id: *event_id,
                        seq: row.seq(0)?,
                        hash: row.hash(1)?,
                    })
                })
                .optional()?,
        );
    }
    Ok(events)
}

/// How SQLite writes the statement of a list.
const DIALECT: SqlDialect = SqlDialect {
    table: "execution",
    columns: EXECUTION_COLUMNS,
    placeholder: '?',
    like: "LIKE",
};

pub(super) fn executions(db: &Connection, filter: &ExecutionFilter, now: Time) -> Result<Vec<ExecutionRow>, ReadError> {
    let statement = list_statement(filter, EXECUTION_COLUMNS, &DIALECT, now);
    Ok(query_rows(
        db,
        &statement.sql,
        list_values(&statement),
        rows::read_execution,
    )?)
}

pub(super) fn execution_facets(
    db: &Connection,
    filter: &ExecutionFilter,
    now: Time,
) -> Result<Vec<FacetRow>, ReadError> {
    let statement = list_statement(filter, FACET_COLUMNS, &DIALECT, now);
    Ok(query_rows(db, &statement.sql, list_values(&statement), read_row)?)
}

pub(super) fn list_values(statement: &ListStatement) -> impl rusqlite::Params {
    let values = statement.values.iter().map(|value| match value {
        FilterValue::Integer(number) => Value::Integer(*number),
        FilterValue::Text(text) => Value::Text(text.clone()),
    });
    params_from_iter(values.collect::<Vec<Value>>())
}

pub(super) fn steps(db: &Connection, id: ExecutionId) -> Result<Vec<StepState>, ReadError> {
    const STEPS: &str = "SELECT step_name, run, status, last_result_ref, aggregate_result_ref, seq
         FROM step_state WHERE execution_id = ?1 ORDER BY step_name";
    Ok(query_rows(db, STEPS, [id.0], read_row)?)
}

pub(super) fn results(db: &Connection, id: ExecutionId) -> Result<Vec<ResultRow>, ReadError> {
    const RESULTS: &str = "SELECT seq, step_name, run, task_label, visit, iteration, page, attempt, result_ref, status,
             created_at
         FROM result_index WHERE execution_id = ?1 ORDER BY seq";
    Ok(query_rows(db, RESULTS, [id.0], read_row)?)
}

pub(super) fn executions_with_permanent_bodies(db: &Connection) -> Result<Vec<ExecutionId>, ReadError> {
    const PERMANENT: &str = "SELECT DISTINCT execution_id FROM result_index
         WHERE result_ref ->> '$.scope' = 'permanent' ORDER BY execution_id";
    Ok(query_rows(db, PERMANENT, [], |row| row.execution_id(0))?)
}

pub(super) fn lost_claims(db: &Connection, owner: Option<&OwnerId>, now: Time) -> Result<Vec<LostClaim>, ReadError> {
    const LOST: &str = "SELECT c.execution_id, c.seq, c.worker, c.lease_epoch
         FROM command c JOIN execution e USING (execution_id) LEFT JOIN session s USING (worker)
         WHERE c.worker IS NOT NULL AND (c.claimed_at = 0 OR coalesce(s.expires_at, 0) <= ?1)
           AND (?2 IS NULL OR e.owner = ?2)
         ORDER BY c.execution_id, c.seq";
    Ok(query_rows(db, LOST, params![now.0, owner_name(owner)], read_row)?)
}

pub(super) fn session(db: &Connection, worker: &WorkerId, now: Time) -> Result<Option<WorkerSession>, ReadError> {
    const SESSION: &str = "SELECT holder, expires_at > ?2 FROM session WHERE worker = ?1";
    Ok(query_row(db, SESSION, params![&*worker.0, now.0], read_row)?)
}

pub(super) fn overdue_commands(
    db: &Connection,
    owner: Option<&OwnerId>,
    now: Time,
) -> Result<Vec<CommandId>, ReadError> {
    const OVERDUE: &str = "SELECT c.execution_id, c.seq FROM command c JOIN execution e USING (execution_id)
         WHERE c.worker IS NULL AND c.start_by <= ?1 AND (?2 IS NULL OR e.owner = ?2)
         ORDER BY c.execution_id, c.seq";
    Ok(query_rows(db, OVERDUE, params![now.0, owner_name(owner)], read_row)?)
}

pub(super) fn open_commands(db: &Connection, id: ExecutionId) -> Result<Vec<OpenCommand>, ReadError> {
    const OPEN: &str = "SELECT body, worker, lease_epoch, issued_at FROM command WHERE execution_id = ?1 ORDER BY seq";
    Ok(query_rows(db, OPEN, [id.0], read_row)?)
}

/// Timers with their due times, earliest first, up to `until`.
pub(super) fn timers(
    db: &Connection,
    owner: Option<&OwnerId>,
    until: Time,
    limit: usize,
) -> Result<Vec<(ExecutionId, Seq, Time)>, ReadError> {
    const DUE: &str = "SELECT t.execution_id, t.seq, t.due FROM timer t JOIN execution e USING (execution_id)
         WHERE t.due <= ?1 AND (?2 IS NULL OR e.owner = ?2)
         ORDER BY t.due, t.execution_id, t.seq LIMIT ?3";
    let values = params![until.0, owner_name(owner), to_i64(limit as u64)];
    Ok(query_rows(db, DUE, values, |row| {
        Ok((row.execution_id(0)?, row.seq(1)?, row.time(2)?))
    })?)
}

pub(super) fn inbox(
    db: &Connection,
    owners: &OwnerLocks,
    owner: Option<&OwnerId>,
    limit: usize,
) -> Result<Vec<Message>, ReadError> {
    let mut statement = db.prepare_cached(
        "SELECT m.from_id, m.seq, m.n, m.to_id, m.body, receiver.execution_id, receiver.owner, sender.owner
         FROM message m
         LEFT JOIN execution receiver ON receiver.execution_id = m.to_id
         LEFT JOIN execution sender ON sender.execution_id = m.from_id
         WHERE m.body IS NOT NULL ORDER BY m.ordinal",
    )?;
    let mut rows = statement.query([])?;
    let mut messages = Vec::new();
    while messages.len() < limit
        && let Some(row) = rows.next()?
    {
        let exists = row.get::<_, Option<i64>>(5)?.is_some();
        let driver: Option<String> = row.get(if exists { 6 } else { 7 })?;
        let is_mine = match (owner, driver.map(|driver| OwnerId(driver.into()))) {
            (None, _) | (_, None) => true,
            (Some(requested_owner), Some(driver)) => driver == *requested_owner || !owners.is_alive(&driver),
        };
        if is_mine {
            messages.push(read_row(row)?);
        }
    }
    Ok(messages)
}

pub(super) fn is_pending(db: &Connection, key: MessageKey) -> Result<bool, ReadError> {
    let mut statement =
        db.prepare_cached("SELECT 1 FROM message WHERE from_id = ?1 AND seq = ?2 AND n = ?3 AND body IS NOT NULL")?;
    Ok(statement.exists(params![key.from.0, to_i64(key.seq.0), key.n])?)
}

pub(super) fn playbook(db: &Connection, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, ReadError> {
    let sql = format!("SELECT {CATALOG} FROM catalog WHERE hash = ?1 LIMIT 1");
    Ok(query_row(db, &sql, [&*hash.0], read_row)?)
}

pub(super) fn catalog_entry(
    db: &Connection,
    path: &str,
    version: Option<u32>,
) -> rusqlite::Result<Option<CatalogEntry>> {
    let sql = format!(
        "SELECT {CATALOG} FROM catalog WHERE path = ?1 AND (?2 IS NULL OR version = ?2)
         ORDER BY version DESC LIMIT 1"
    );
    query_row(db, &sql, params![path, version], read_row)
}

pub(super) fn catalog(db: &Connection) -> Result<Vec<CatalogEntry>, ReadError> {
    let sql = format!(
        "SELECT {CATALOG} FROM catalog c
         WHERE version = (SELECT max(version) FROM catalog WHERE path = c.path) ORDER BY path"
    );
    Ok(query_rows(db, &sql, [], read_row)?)
}

pub(super) fn abandoned_executions(db: &Connection, owners: &OwnerLocks) -> Result<Vec<ExecutionId>, ReadError> {
    let mut statement = db.prepare_cached(
        "SELECT execution_id, owner FROM execution WHERE status IN ('RUNNING', 'PAUSED') ORDER BY execution_id",
    )?;
    let mut rows = statement.query([])?;
    let mut abandoned = Vec::new();
    while let Some(row) = rows.next()? {
        let owner: Option<String> = row.get(1)?;
        if owner.is_none_or(|owner| !owners.is_alive(&OwnerId(owner.into()))) {
            abandoned.push(row.execution_id(0)?);
        }
    }
    Ok(abandoned)
}

/// The damage that SQLite finds in its file, one entry per finding, and snapshots with a wrong checksum.
pub(super) fn find_damage(db: &Connection) -> Result<Vec<Damage>, ReadError> {
    let mut pages = db.prepare("PRAGMA integrity_check(20)")?;
    let findings = pages.query_map([], |row| row.get::<_, String>(0))?;
    let mut damage = Vec::new();
    for finding in findings {
        let message = finding?;
        if message != "ok" {
            damage.push(Damage {
                execution: None,
                description: message,
            });
        }
    }
    let mut snapshots = db.prepare("SELECT execution_id, bytes, sha256 FROM snapshot")?;
    let mut snapshot_rows = snapshots.query([])?;
    while let Some(row) = snapshot_rows.next()? {
        let (bytes, sha256): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
        if snapshot_checksum(&bytes)[..] != sha256[..] {
            damage.push(Damage {
                execution: Some(row.execution_id(0)?),
                description: "the snapshot does not match its checksum; the log is used instead".to_owned(),
            });
        }
    }
    Ok(damage)
}
