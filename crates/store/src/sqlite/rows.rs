//! Conversions between table rows and values.

use model::event::EventStatus;
use model::id::{ExecutionId, Name};
use model::raw::RawJson;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use serde::Serialize;

pub(super) use crate::columns::to_i64;
use crate::columns::{Columns, FromColumns};
use crate::error::BoxError;
use crate::projections::ProjectionDelta;
use crate::rows::{ExecutionRow, ResultRow};
use crate::sqlite::waits;

/// The columns of [`ExecutionRow`], in its order, and its checksum.
pub(super) const EXECUTION_COLUMNS: &str = "execution_id, version, status, cancelling, generation, name, path, \
     playbook_version, hash, parent_id, owner, started_at, finished_at, current, error, checksum";

pub(super) fn to_json_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data serializes to JSON")
}

impl Columns for Row<'_> {
    type Error = rusqlite::Error;

    fn flag(&self, column: usize) -> rusqlite::Result<bool> {
        self.get(column)
    }

    fn count(&self, column: usize) -> rusqlite::Result<u32> {
        self.get(column)
    }

    fn integer(&self, column: usize) -> rusqlite::Result<i64> {
        self.get(column)
    }

    fn optional_integer(&self, column: usize) -> rusqlite::Result<Option<i64>> {
        self.get(column)
    }

    fn unsigned(&self, column: usize) -> rusqlite::Result<u64> {
        let value = self.integer(column)?;
        u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
    }

    fn text(&self, column: usize) -> rusqlite::Result<&str> {
        Ok(self.get_ref(column)?.as_str()?)
    }

    fn optional_text(&self, column: usize) -> rusqlite::Result<Option<&str>> {
        Ok(self.get_ref(column)?.as_str_or_null()?)
    }

    fn bytes(&self, column: usize) -> rusqlite::Result<Vec<u8>> {
        self.get(column)
    }

    fn invalid_column_error(column: usize, error: impl Into<BoxError>) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    }
}

/// Reads a row.
pub(super) fn read_row<T: FromColumns>(row: &Row<'_>) -> rusqlite::Result<T> {
    T::from_columns(row)
}

/// Reads all rows of a query.
pub(super) fn query_rows<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map(values, read)?.collect()
}

/// Reads the first row of a query, if there is one.
pub(super) fn query_row<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    db.prepare_cached(sql)?.query_row(values, read).optional()
}

/// Reads a row and compares it with its checksum.
pub(super) fn read_execution(row: &Row<'_>) -> rusqlite::Result<ExecutionRow> {
    let execution: ExecutionRow = read_row(row)?;
    let checksum: Option<u32> = row.get(15)?;
    if checksum.is_some_and(|checksum| checksum != execution.checksum()) {
        let message = format!("the row of run {} does not match its checksum", execution.id);
        return Err(rusqlite::Error::FromSqlConversionFailure(
            15,
            Type::Integer,
            message.into(),
        ));
    }
    Ok(execution)
}

pub(super) fn execution_row(db: &Connection, id: ExecutionId) -> rusqlite::Result<Option<ExecutionRow>> {
    let sql = format!("SELECT {EXECUTION_COLUMNS} FROM execution WHERE execution_id = ?1");
    query_row(db, &sql, [id.0], read_execution)
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

/// Writes the changes to `step_state`, `result_index`, `execution_label`, `pending_wait` and `early_signal`.
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
    for (key, value) in delta.labels.iter() {
        db.prepare_cached("INSERT INTO execution_label (execution_id, key, value) VALUES (?1, ?2, ?3)")?
            .execute(params![id.0, key.as_str(), value.as_str()])?;
    }
    waits::write_waits(db, id, &delta.waits)
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
