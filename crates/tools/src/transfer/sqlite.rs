//! SQLite as source and target: reads rows on a blocking thread, writes them in one transaction.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::{Outcome, TaskError};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, Value as SqlValue};
use serde_json::Value;

use super::flow::{Inlet, Outlet, Stops, Totals, broken_row};
use super::plan::{Mode, listed, on_conflict, quoted};
use crate::sql::{Statement, unique};
use crate::sqlite::{check_file, json_value, open, sql_value, told};

/// Opens a file, unless it belongs to NoETL, and registers a callback that interrupts it.
fn connect(file: &Path, forbidden: &[PathBuf], stops: &Stops) -> Result<Connection, TaskError> {
    check_file(file, forbidden)?;
    let opened = open(&file.display().to_string(), file);
    let connection = opened.map_err(|failure| match failure.outcome() {
        Outcome::Error(failure) => failure.error,
        Outcome::Ok(_) => unreachable!("a failure gives an error outcome"),
    })?;
    let handle = connection.get_interrupt_handle();
    stops.add(move || handle.interrupt());
    Ok(connection)
}

/// A database file, and the files that must not be opened.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) forbidden: Vec<PathBuf>,
    pub(super) stops: Stops,
}

/// Reads the rows of a query.
pub(super) fn read(file: &File, query: &Statement, outlet: &mut Outlet) -> Result<(), TaskError> {
    let connection = connect(&file.path, &file.forbidden, &file.stops)?;
    let sent = query.text();
    let mut prepared = connection.prepare(&sent.text).map_err(told)?;
    for (at, param) in sent.params.iter().enumerate() {
        prepared
            .raw_bind_parameter(at + 1, sql_value(param))
            .map_err(told)?;
    }
    let columns = unique(prepared.column_names().map(str::to_owned));
    let count = columns.len();
    outlet.begin(columns);
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next().map_err(told)? {
        let values = (0..count).map(|at| row.get_ref(at).map(json_value));
        let values = values.collect::<Result<_, _>>().map_err(told)?;
        if outlet.push(values) {
            outlet.send_blocking()?;
        }
    }
    Ok(())
}

/// Writes all chunks to a table in one transaction.
pub(super) fn write(
    file: &File,
    table: &str,
    mode: &Mode,
    mut inlet: Inlet,
) -> Result<Totals, TaskError> {
    let connection = connect(&file.path, &file.forbidden, &file.stops)?;
    let name = quoted(table);
    let transaction = connection.unchecked_transaction().map_err(told)?;
    let blobs = blobs(&connection, table)?;
    if *mode == Mode::Replace {
        transaction
            .execute(&format!("DELETE FROM {name}"), [])
            .map_err(told)?;
    }
    let mut insert = None;
    let mut count = 0;
    while let Some(batch) = inlet.next_blocking()? {
        if batch.rows.is_empty() {
            continue;
        }
        if insert.is_none() {
            let conflict = match mode {
                Mode::Upsert(key) => on_conflict(&batch.columns, key)?,
                Mode::Append | Mode::Replace => String::new(),
            };
            let marks = vec!["?"; batch.columns.len()].join(", ");
            let sql = format!(
                "INSERT INTO {name} ({}) VALUES ({marks}) {conflict}",
                listed(&batch.columns)
            );
            insert = Some(transaction.prepare(&sql).map_err(told)?);
        }
        let Some(insert) = &mut insert else { continue };
        for row in &batch.rows {
            count += 1;
            for (at, (value, column)) in row.iter().zip(batch.columns.iter()).enumerate() {
                let is_blob = blobs.iter().any(|name| name.eq_ignore_ascii_case(column));
                insert
                    .raw_bind_parameter(at + 1, sql_of(value, is_blob, count)?)
                    .map_err(told)?;
            }
            insert
                .raw_execute()
                .map_err(|error| told(error).with("row", count))?;
        }
    }
    drop(insert);
    transaction.commit().map_err(told)?;
    Ok(inlet.totals)
}

/// Columns declared as BLOB. Fails if the table does not exist.
fn blobs(connection: &Connection, table: &str) -> Result<Vec<String>, TaskError> {
    drop(
        connection
            .prepare(&format!("SELECT * FROM {}", quoted(table)))
            .map_err(told)?,
    );
    let (schema, name) = table.rsplit_once('.').unwrap_or(("main", table));
    let sql = "SELECT name FROM pragma_table_info(?1, ?2) WHERE upper(type) = 'BLOB'";
    let mut prepared = connection.prepare(sql).map_err(told)?;
    let found = prepared
        .query_map([name, schema], |row| row.get(0))
        .map_err(told)?;
    found.collect::<Result<_, _>>().map_err(told)
}

fn sql_of(value: &Value, is_blob: bool, row: u64) -> Result<ToSqlOutput<'static>, TaskError> {
    match value {
        Value::String(text) if is_blob => {
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|_| broken_row(row, "a binary value is not valid base64"))?;
            Ok(ToSqlOutput::Owned(SqlValue::Blob(bytes)))
        }
        other => Ok(sql_value(other)),
    }
}
