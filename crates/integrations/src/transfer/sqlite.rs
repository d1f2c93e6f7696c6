//! SQLite as source and target: reads rows on a blocking thread, writes them in one transaction.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::{Outcome, TaskError};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, Value as SqlValue};
use serde_json::Value;
use tools::sql::{SqlStatement, unique_names};
use tools::sqlite::{check_file, json_value, open_database, sql_value, task_error};

use super::flow::{RowReceiver, RowSender, StopCallbacks, TransferTotals, row_error};
use super::options::{WriteMode, conflict_clause, quote_column_list, quote_table_name};

/// Opens a file, unless it belongs to NoETL, and registers a callback that interrupts it.
fn open_connection(file: &Path, forbidden: &[PathBuf], stops: &StopCallbacks) -> Result<Connection, TaskError> {
    check_file(file, forbidden)?;
    let connection = open_database(&file.display().to_string(), file);
    let connection = connection.map_err(|failure| match failure.into_outcome() {
        Outcome::Error(failure) => failure.error,
        Outcome::Ok(_) => unreachable!("a failure gives an error outcome"),
    })?;
    let handle = connection.get_interrupt_handle();
    stops.add(move || handle.interrupt());
    Ok(connection)
}

/// A database file, and the files that must not be opened.
pub(super) struct SqliteEndpoint {
    pub(super) path: PathBuf,
    pub(super) forbidden: Vec<PathBuf>,
    pub(super) stop_callbacks: StopCallbacks,
}

/// Reads the rows of a query.
pub(super) fn read_query(
    endpoint: &SqliteEndpoint,
    query: &SqlStatement,
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    let connection = open_connection(&endpoint.path, &endpoint.forbidden, &endpoint.stop_callbacks)?;
    let statement = query.text();
    let mut prepared = connection.prepare(&statement.text).map_err(task_error)?;
    for (index, param) in statement.params.iter().enumerate() {
        prepared
            .raw_bind_parameter(index + 1, sql_value(param))
            .map_err(task_error)?;
    }
    let columns = unique_names(prepared.column_names().map(str::to_owned));
    let count = columns.len();
    sender.set_columns(columns);
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next().map_err(task_error)? {
        let values = (0..count).map(|index| row.get_ref(index).map(json_value));
        let values = values.collect::<Result<_, _>>().map_err(task_error)?;
        if sender.push(values) {
            sender.send_blocking()?;
        }
    }
    Ok(())
}

/// Writes all chunks to a table in one transaction.
pub(super) fn write_table(
    endpoint: &SqliteEndpoint,
    table: &str,
    mode: &WriteMode,
    mut receiver: RowReceiver,
) -> Result<TransferTotals, TaskError> {
    let connection = open_connection(&endpoint.path, &endpoint.forbidden, &endpoint.stop_callbacks)?;
    let name = quote_table_name(table);
    let transaction = connection.unchecked_transaction().map_err(task_error)?;
    let blobs = blob_columns(&connection, table)?;
    if *mode == WriteMode::Replace {
        transaction
            .execute(&format!("DELETE FROM {name}"), [])
            .map_err(task_error)?;
    }
    let mut insert = None;
    let mut count = 0;
    while let Some(batch) = receiver.next_blocking()? {
        if batch.rows.is_empty() {
            continue;
        }
        if insert.is_none() {
            let conflict = match mode {
                WriteMode::Upsert(key) => conflict_clause(&batch.columns, key)?,
                WriteMode::Append | WriteMode::Replace => String::new(),
            };
            let marks = vec!["?"; batch.columns.len()].join(", ");
            let sql = format!(
                "INSERT INTO {name} ({}) VALUES ({marks}) {conflict}",
                quote_column_list(&batch.columns)
            );
            insert = Some(transaction.prepare(&sql).map_err(task_error)?);
        }
        let Some(insert) = &mut insert else { continue };
        for row in &batch.rows {
            count += 1;
            for (index, (value, column)) in row.iter().zip(batch.columns.iter()).enumerate() {
                let is_blob = blobs.iter().any(|name| name.eq_ignore_ascii_case(column));
                insert
                    .raw_bind_parameter(index + 1, to_sql_value(value, is_blob, count)?)
                    .map_err(task_error)?;
            }
            insert
                .raw_execute()
                .map_err(|error| task_error(error).with_detail("row", count))?;
        }
    }
    drop(insert);
    transaction.commit().map_err(task_error)?;
    Ok(receiver.totals)
}

/// Columns declared as BLOB. Fails if the table does not exist.
fn blob_columns(connection: &Connection, table: &str) -> Result<Vec<String>, TaskError> {
    drop(
        connection
            .prepare(&format!("SELECT * FROM {}", quote_table_name(table)))
            .map_err(task_error)?,
    );
    let (schema, name) = table.rsplit_once('.').unwrap_or(("main", table));
    let sql = "SELECT name FROM pragma_table_info(?1, ?2) WHERE upper(type) = 'BLOB'";
    let mut prepared = connection.prepare(sql).map_err(task_error)?;
    let names = prepared
        .query_map([name, schema], |row| row.get(0))
        .map_err(task_error)?;
    names.collect::<Result<_, _>>().map_err(task_error)
}

fn to_sql_value(value: &Value, is_blob: bool, row: u64) -> Result<ToSqlOutput<'static>, TaskError> {
    match value {
        Value::String(text) if is_blob => {
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|_| row_error(row, "a binary value is not valid base64"))?;
            Ok(ToSqlOutput::Owned(SqlValue::Blob(bytes)))
        }
        other => Ok(sql_value(other)),
    }
}
