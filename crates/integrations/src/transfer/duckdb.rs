//! `DuckDB` as source and target: reads chunks, writes through an appender, and copies files directly.

use std::path::{Path, PathBuf};

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tools::sql::{SqlStatement, unique_names};

use super::flow::{RowReceiver, RowSender, StopCallbacks, TransferTotals};
use super::options::{FileFormat, WriteMode, conflict_clause, quote_column_list, quote_table_name};
use crate::duckdb::{Appender, DatabaseHandle, DatabasePool, DuckdbConnection, may_attach};

/// Temporary table for the rows of an upsert.
const STAGING_TABLE: &str = "noetl_transfer";

/// A database, and the callbacks that cancel its work.
pub(super) struct DuckdbEndpoint {
    pub(super) databases: DatabasePool,
    pub(super) file: Option<PathBuf>,
    pub(super) folder: PathBuf,
    pub(super) stop_callbacks: StopCallbacks,
}

impl DuckdbEndpoint {
    fn connect(&self) -> Result<DatabaseHandle, TaskError> {
        let handle = self.databases.connect(self.file.as_deref())?;
        let connection = handle.weak_connection();
        self.stop_callbacks.add(move || {
            if let Some(connection) = connection.upgrade() {
                connection.interrupt();
            }
        });
        Ok(handle)
    }

    fn check_query(&self, query: &SqlStatement) -> Result<(), TaskError> {
        if may_attach(query) {
            let message = "the query of a source must be a SELECT and cannot attach a database";
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
        }
        self.databases.guard().check_statement(query, &self.folder)
    }
}

/// Reads the rows of a query.
pub(super) fn read_query(
    endpoint: &DuckdbEndpoint,
    query: &SqlStatement,
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    endpoint.check_query(query)?;
    let handle = endpoint.connect()?;
    let statement = query.text();
    send_rows(handle.connection(), &statement.text, &statement.params, sender)
}

/// Reads a file that DuckDB supports.
pub(super) fn read_file(
    endpoint: &DuckdbEndpoint,
    file: &Path,
    format: FileFormat,
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    let handle = endpoint.connect()?;
    let text = format!("SELECT * FROM {}", file_reader(file, format));
    send_rows(handle.connection(), &text, &[], sender)
}

fn send_rows(
    connection: &DuckdbConnection,
    sql: &str,
    params: &[Value],
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    let mut rows = connection.query(sql, params)?;
    sender.set_columns(unique_names(rows.names().iter().cloned()));
    while let Some(chunk) = rows.next_chunk()? {
        for row in chunk.rows() {
            if sender.push(row) {
                sender.send_blocking()?;
            }
        }
    }
    Ok(())
}

/// Writes all chunks to a table in one transaction.
pub(super) fn write_table(
    endpoint: &DuckdbEndpoint,
    table: &str,
    mode: &WriteMode,
    mut receiver: RowReceiver,
) -> Result<TransferTotals, TaskError> {
    let handle = endpoint.connect()?;
    let connection = handle.connection();
    connection.execute("BEGIN")?;
    let result = write_rows(connection, table, mode, &mut receiver);
    match result {
        Ok(()) => connection.execute("COMMIT")?,
        Err(error) => {
            // The connection is closed with the call, which also rolls back.
            let _ = connection.execute("ROLLBACK");
            return Err(error);
        }
    }
    Ok(receiver.totals)
}

/// Reports a missing table before the source is read.
fn check_table(connection: &DuckdbConnection, name: &str) -> Result<(), TaskError> {
    connection.query(&format!("SELECT * FROM {name} LIMIT 0"), &[])?;
    Ok(())
}

fn write_rows(
    connection: &DuckdbConnection,
    table: &str,
    mode: &WriteMode,
    receiver: &mut RowReceiver,
) -> Result<(), TaskError> {
    let name = quote_table_name(table);
    check_table(connection, &name)?;
    if *mode == WriteMode::Replace {
        connection.execute(&format!("DELETE FROM {name}"))?;
    }
    let mut appender: Option<Appender<'_>> = None;
    let mut columns = Vec::new();
    let mut count: u64 = 0;
    while let Some(batch) = receiver.next_blocking()? {
        if batch.rows.is_empty() {
            continue;
        }
        if appender.is_none() {
            columns = batch.columns.to_vec();
            appender = Some(start_write(connection, table, mode, &columns)?);
        }
        let Some(appender) = &mut appender else {
            continue;
        };
        for row in &batch.rows {
            count += 1;
            appender
                .append_row(row)
                .map_err(|error| TaskError::from(error).with_detail("row", count))?;
        }
    }
    let Some(appender) = appender else {
        return Ok(());
    };
    appender.finish()?;
    let WriteMode::Upsert(key) = mode else {
        return Ok(());
    };
    let (names, keys) = (quote_column_list(&columns), quote_column_list(key));
    let conflict = conflict_clause(&columns, key)?;
    // The last row with a key wins.
    let insert = format!(
        "INSERT INTO {name} ({names}) SELECT {names} FROM {STAGING_TABLE} \
         QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY rowid DESC) = 1 {conflict}"
    );
    connection.execute(&insert)?;
    Ok(connection.execute(&format!("DROP TABLE {STAGING_TABLE}"))?)
}

fn start_write<'c>(
    connection: &'c DuckdbConnection,
    table: &str,
    mode: &WriteMode,
    columns: &[String],
) -> Result<Appender<'c>, TaskError> {
    if let WriteMode::Upsert(key) = mode {
        conflict_clause(columns, key)?;
        let names = quote_column_list(columns);
        let stage = format!(
            "CREATE TEMP TABLE {STAGING_TABLE} AS SELECT {names} FROM {} LIMIT 0",
            quote_table_name(table)
        );
        connection.execute(&stage)?;
        return Ok(Appender::new(connection, None, STAGING_TABLE, columns)?);
    }
    let (schema, table) = match table.rsplit_once('.') {
        Some((schema, table)) => (Some(schema), table),
        None => (None, table),
    };
    Ok(Appender::new(connection, schema, table, columns)?)
}

/// Lets DuckDB write the rows of a query to a file; returns the row count and columns.
pub(super) fn copy_out(
    endpoint: &DuckdbEndpoint,
    query: &SqlStatement,
    file: &Path,
    format: FileFormat,
) -> Result<TransferTotals, TaskError> {
    endpoint.check_query(query)?;
    let handle = endpoint.connect()?;
    let connection = handle.connection();
    let statement = query.text();
    let describe_sql = format!("SELECT * FROM ({}\n) LIMIT 0", statement.text);
    let rows = connection.query(&describe_sql, &statement.params)?;
    let columns = rows.names().to_vec();
    drop(rows);
    // `COPY` accepts no parameters, so values are inserted as literals.
    let sql = format!(
        "COPY ({}\n) TO {} ({})",
        query.text_with_literals().text,
        path_literal(file),
        copy_options(format)
    );
    let rows = execute_counting(connection, &sql)?;
    Ok(build_totals(rows, columns))
}

/// A file that DuckDB reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceFile<'a> {
    pub(super) path: &'a Path,
    pub(super) format: FileFormat,
}

/// Lets DuckDB read a file into a table; upserts use `write_table`.
pub(super) fn copy_in(
    endpoint: &DuckdbEndpoint,
    source_file: SourceFile<'_>,
    table: &str,
    mode: &WriteMode,
    mapping: Option<&Map<String, Value>>,
) -> Result<TransferTotals, TaskError> {
    let handle = endpoint.connect()?;
    let connection = handle.connection();
    let name = quote_table_name(table);
    check_table(connection, &name)?;
    let rows = connection.query(
        &format!(
            "SELECT * FROM {} LIMIT 0",
            file_reader(source_file.path, source_file.format)
        ),
        &[],
    )?;
    let source_columns = rows.names().to_vec();
    drop(rows);
    let (columns, picked) = pick_columns(&source_columns, mapping)?;
    let types = column_types(connection, &name, &columns)?;
    let (source, values) = typed_reader(source_file, &picked, &types);
    connection.execute("BEGIN")?;
    if *mode == WriteMode::Replace {
        connection.execute(&format!("DELETE FROM {name}"))?;
    }
    let insert = format!(
        "INSERT INTO {name} ({}) SELECT {} FROM {source}",
        quote_column_list(&columns),
        values.join(", ")
    );
    let rows = execute_counting(connection, &insert)?;
    connection.execute("COMMIT")?;
    Ok(build_totals(rows, columns))
}

/// SQL types of some columns of a table.
fn column_types(connection: &DuckdbConnection, table: &str, columns: &[String]) -> Result<Vec<String>, TaskError> {
    let sql = format!(
        "SELECT column_type FROM (DESCRIBE SELECT {} FROM {table})",
        quote_column_list(columns)
    );
    let mut rows = connection.query(&sql, &[])?;
    let mut types = Vec::new();
    while let Some(chunk) = rows.next_chunk()? {
        let first = chunk.rows().filter_map(|row| row.into_iter().next());
        types.extend(first.filter_map(|value| value.as_str().map(str::to_owned)));
    }
    Ok(types)
}

/// SQL that reads a file without type inference, and an expression for each column. Text and JSON get the types of the
/// target's columns; bytes in them are base64.
fn typed_reader(source_file: SourceFile<'_>, picked: &[String], types: &[String]) -> (String, Vec<String>) {
    let SourceFile { path: file, format } = source_file;
    let is_bytes = |column_type: &String| column_type == "BLOB" && format != FileFormat::Parquet;
    let values = picked.iter().zip(types).map(|(name, column_type)| {
        let name = quote_column_list(std::slice::from_ref(name));
        if is_bytes(column_type) {
            format!("from_base64({name})")
        } else {
            name
        }
    });
    let values = values.collect();
    let layout = match format {
        FileFormat::Csv | FileFormat::Parquet => return (file_reader(file, format), values),
        FileFormat::Ndjson => "newline_delimited",
        FileFormat::Json => "array",
    };
    let columns = picked.iter().zip(types).map(|(name, column_type)| {
        let column_type = if is_bytes(column_type) { "VARCHAR" } else { column_type };
        format!("{}: {}", text_literal(name), text_literal(column_type))
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let source = format!(
        "read_json({}, format = '{layout}', columns = {{{columns}}})",
        path_literal(file)
    );
    (source, values)
}

fn pick_columns(
    available: &[String],
    mapping: Option<&Map<String, Value>>,
) -> Result<(Vec<String>, Vec<String>), TaskError> {
    let Some(mapping) = mapping else {
        return Ok((available.to_vec(), available.to_vec()));
    };
    let source_column = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some((name, _)) = mapping
        .iter()
        .find(|(_, value)| !available.contains(&source_column(value)))
    {
        let message = format!(
            "`mapping.{name}` refers to a column that the source does not have; its columns are {}",
            available.join(", ")
        );
        return Err(TaskError::new(ErrorKind::Schema, "TRANSFER_COLUMN", message));
    }
    Ok((
        mapping.keys().cloned().collect(),
        mapping.values().map(source_column).collect(),
    ))
}

fn execute_counting(connection: &DuckdbConnection, sql: &str) -> Result<u64, TaskError> {
    let mut rows = connection.query(sql, &[])?;
    let mut count = 0;
    while let Some(chunk) = rows.next_chunk()? {
        let first = chunk.rows().next().and_then(|row| row.into_iter().next());
        count += first.and_then(|value| value.as_u64()).unwrap_or(0);
    }
    Ok(count)
}

fn build_totals(rows: u64, columns: Vec<String>) -> TransferTotals {
    TransferTotals {
        rows,
        chunks: u64::from(rows > 0),
        columns,
    }
}

/// Lets DuckDB convert JSON lines to a Parquet file.
pub(super) fn write_parquet(endpoint: &DuckdbEndpoint, lines: &Path, file: &Path) -> Result<(), TaskError> {
    let handle = endpoint.connect()?;
    let sql = format!(
        "COPY (SELECT * FROM read_json({}, format = 'newline_delimited', sample_size = 100000)) TO {} (FORMAT parquet)",
        path_literal(lines),
        path_literal(file)
    );
    Ok(handle.connection().execute(&sql)?)
}

/// SQL that reads a file. CSV columns are all text. For JSON only the keys of the rows matter, so all rows are sampled,
/// but not deeply.
fn file_reader(file: &Path, format: FileFormat) -> String {
    let file = path_literal(file);
    let keys = "sample_size = -1, maximum_depth = 1, map_inference_threshold = -1";
    match format {
        FileFormat::Csv => format!(
            "read_csv({file}, header = true, all_varchar = true, delim = ',', quote = '\"', escape = '\"', \
             nullstr = '', allow_quoted_nulls = false, comment = '', skip = 0)"
        ),
        FileFormat::Ndjson => format!("read_json({file}, format = 'newline_delimited', {keys})"),
        FileFormat::Json => format!("read_json({file}, format = 'array', {keys})"),
        FileFormat::Parquet => format!("read_parquet({file})"),
    }
}

fn copy_options(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Csv => "FORMAT csv, HEADER",
        FileFormat::Ndjson => "FORMAT json",
        FileFormat::Json => "FORMAT json, ARRAY true",
        FileFormat::Parquet => "FORMAT parquet",
    }
}

fn path_literal(file: &Path) -> String {
    text_literal(&file.display().to_string())
}

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
