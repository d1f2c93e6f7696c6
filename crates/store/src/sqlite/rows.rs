//! Conversions between table rows and values.

use model::event::EventStatus;
use model::id::{ExecutionId, Name, PlaybookHash, Seq, StepRunId};
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Digest as _;

use crate::projections::ProjectionDelta;
use crate::rows::{CatalogEntry, ExecutionRow, OwnerId, ResultRow, StepState};

/// The columns of [`ExecutionRow`], in its order, and its checksum.
pub(super) const EXECUTION_COLUMNS: &str = "execution_id, version, status, cancelling, generation, name, path, \
     playbook_version, hash, parent_id, owner, started_at, finished_at, current, error, checksum";

/// Converts to SQLite's signed integer; sequence numbers and counts stay far below its maximum.
pub(super) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn read_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(super) fn to_json_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data serializes to JSON")
}

pub(super) fn read_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

fn read_name(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    Ok(Name::from(row.get_ref(column)?.as_str()?))
}

fn read_optional_name(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Name>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Name::from))
}

fn read_optional_raw(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<RawJson>> {
    match row.get_ref(column)?.as_str_or_null()? {
        Some(_) => read_json(row, column).map(Some),
        None => Ok(None),
    }
}

fn read_step_status(row: &Row<'_>, column: usize) -> rusqlite::Result<EventStatus> {
    let quoted = format!("\"{}\"", row.get_ref(column)?.as_str()?);
    serde_json::from_str(&quoted)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

pub(super) fn read_execution(row: &Row<'_>) -> rusqlite::Result<ExecutionRow> {
    let status = row.get_ref(2)?.as_str()?.parse::<RunStatus>();
    let row_data = ExecutionRow {
        id: ExecutionId(row.get(0)?),
        version: Seq(read_unsigned(row, 1)?),
        status: status.map_err(|error| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error)))?,
        cancelling: row.get(3)?,
        generation: row.get(4)?,
        name: read_name(row, 5)?,
        path: read_name(row, 6)?,
        playbook_version: row.get(7)?,
        hash: PlaybookHash(row.get_ref(8)?.as_str()?.into()),
        parent: row.get::<_, Option<i64>>(9)?.map(ExecutionId),
        owner: row.get_ref(10)?.as_str_or_null()?.map(|owner| OwnerId(owner.into())),
        started_at: Time(row.get(11)?),
        finished_at: row.get::<_, Option<i64>>(12)?.map(Time),
        current: read_optional_name(row, 13)?,
        error: row.get(14)?,
    };
    let checksum: Option<u32> = row.get(15)?;
    if checksum.is_some_and(|checksum| checksum != row_data.checksum()) {
        let message = format!("the row of run {} does not match its checksum", row_data.id);
        return Err(rusqlite::Error::FromSqlConversionFailure(
            15,
            Type::Integer,
            message.into(),
        ));
    }
    Ok(row_data)
}

pub(super) fn execution_row(db: &Connection, id: ExecutionId) -> rusqlite::Result<Option<ExecutionRow>> {
    db.prepare_cached(&format!(
        "SELECT {EXECUTION_COLUMNS} FROM execution WHERE execution_id = ?1"
    ))?
    .query_row([id.0], read_execution)
    .optional()
}

/// Inserts a new execution. Returns false if it already exists.
pub(super) fn insert_execution(db: &Connection, row: &ExecutionRow) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO execution ({EXECUTION_COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING"
    );
    write_execution(db, &sql, row)
}

/// Writes every column of an execution's row.
pub(super) fn update_execution(db: &Connection, row: &ExecutionRow) -> rusqlite::Result<()> {
    let sql = "UPDATE execution SET version = ?2, status = ?3, cancelling = ?4, generation = ?5, name = ?6, \
         path = ?7, playbook_version = ?8, hash = ?9, parent_id = ?10, owner = ?11, started_at = ?12, \
         finished_at = ?13, current = ?14, error = ?15, checksum = ?16 WHERE execution_id = ?1";
    write_execution(db, sql, row).map(|_| ())
}

fn write_execution(db: &Connection, sql: &str, row: &ExecutionRow) -> rusqlite::Result<bool> {
    let changed = db.prepare_cached(sql)?.execute(params![
        row.id.0,
        to_i64(row.version.0),
        row.status.name(),
        row.cancelling,
        row.generation,
        row.name.as_str(),
        row.path.as_str(),
        row.playbook_version,
        &*row.hash.0,
        row.parent.map(|parent| parent.0),
        row.owner.as_ref().map(|owner| &*owner.0),
        row.started_at.0,
        row.finished_at.map(|time| time.0),
        row.current.as_ref().map(Name::as_str),
        row.error,
        row.checksum(),
    ])?;
    Ok(changed == 1)
}

/// Writes the changes to `step_state` and `result_index`.
pub(super) fn write_projection(db: &Connection, id: ExecutionId, delta: &ProjectionDelta) -> rusqlite::Result<()> {
    for change in &delta.steps {
        db.prepare_cached(
            "INSERT INTO step_state (execution_id, step_name, run, status, last_result_ref, aggregate_result_ref, seq)
             VALUES (?1, ?2, coalesce(?3, 0), coalesce(?4, 'in_progress'), ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET run = coalesce(?3, run), status = coalesce(?4, status),
                 last_result_ref = coalesce(?5, last_result_ref),
                 aggregate_result_ref = coalesce(?6, aggregate_result_ref), seq = ?7",
        )?
        .execute(params![
            id.0,
            change.step.as_str(),
            change.run,
            change.status.map(EventStatus::name),
            change.last_result_ref.as_ref().map(RawJson::text),
            change.aggregate_result_ref.as_ref().map(RawJson::text),
            to_i64(change.seq.0),
        ])?;
    }
    for result in &delta.results {
        insert_result(db, id, result)?;
    }
    Ok(())
}

fn insert_result(db: &Connection, id: ExecutionId, result: &ResultRow) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO result_index (execution_id, seq, step_name, run, task_label, visit, iteration, page, attempt,
             result_ref, status, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        id.0,
        to_i64(result.seq.0),
        result.run.step.as_str(),
        result.run.run,
        result.task.as_ref().map(Name::as_str),
        result.visit,
        result.iteration.map(to_i64),
        result.page,
        result.attempt,
        result.result_ref.text(),
        result.status.name(),
        result.created_at.0,
    ])?;
    Ok(())
}

/// Reads `seq, read_step_name, run, task_label, visit, iteration, page, attempt, result_ref, status, created_at`.
pub(super) fn read_result(row: &Row<'_>) -> rusqlite::Result<ResultRow> {
    let iteration: Option<i64> = row.get(5)?;
    Ok(ResultRow {
        seq: Seq(read_unsigned(row, 0)?),
        run: StepRunId {
            step: read_name(row, 1)?,
            run: row.get(2)?,
        },
        task: read_optional_name(row, 3)?,
        visit: row.get(4)?,
        iteration: iteration.and_then(|index| u64::try_from(index).ok()),
        page: row.get(6)?,
        attempt: row.get(7)?,
        result_ref: read_json(row, 8)?,
        status: read_step_status(row, 9)?,
        created_at: Time(row.get(10)?),
    })
}

/// Reads `read_step_name, run, status, last_result_ref, aggregate_result_ref, seq`.
pub(super) fn read_step(row: &Row<'_>) -> rusqlite::Result<StepState> {
    Ok(StepState {
        step: read_name(row, 0)?,
        run: row.get(1)?,
        status: read_step_status(row, 2)?,
        last_result_ref: read_optional_raw(row, 3)?,
        aggregate_result_ref: read_optional_raw(row, 4)?,
        seq: Seq(read_unsigned(row, 5)?),
    })
}

/// Reads `path, version, hash, text, registered_at`.
pub(super) fn read_catalog_entry(row: &Row<'_>) -> rusqlite::Result<CatalogEntry> {
    let entry = CatalogEntry {
        path: read_name(row, 0)?,
        version: row.get(1)?,
        hash: PlaybookHash(row.get_ref(2)?.as_str()?.into()),
        text: row.get_ref(3)?.as_str()?.into(),
        registered_at: Time(row.get(4)?),
    };
    if !entry.matches_hash() {
        let message = format!("playbook `{}` does not match its hash", entry.path);
        return Err(rusqlite::Error::FromSqlConversionFailure(3, Type::Text, message.into()));
    }
    Ok(entry)
}
