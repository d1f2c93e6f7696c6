//! `DuckDB` as source and target: reads chunks, writes through an appender, and copies files directly.

use std::path::{Path, PathBuf};

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};

use super::flow::{Inlet, Outlet, Stops, Totals};
use super::plan::{Format, Mode, listed, on_conflict, quoted};
use crate::duckdb::{Appender, Connection, Databases, Fault, Lease, failed, may_attach};
use crate::sql::{Statement, unique};

/// Temporary table for the rows of an upsert.
const STAGE: &str = "noetl_transfer";

/// A database, and the callbacks that cancel its work.
pub(super) struct Base {
    pub(super) databases: Databases,
    pub(super) file: Option<PathBuf>,
    pub(super) folder: PathBuf,
    pub(super) stops: Stops,
}

impl Base {
    fn connect(&self) -> Result<Lease, TaskError> {
        let lease = self.databases.connect(self.file.as_deref())?;
        let connection = lease.handle();
        self.stops.add(move || {
            if let Some(connection) = connection.upgrade() {
                connection.interrupt();
            }
        });
        Ok(lease)
    }

    fn check(&self, query: &Statement) -> Result<(), TaskError> {
        if may_attach(query) {
            let message = "the query of a source must be a SELECT and cannot attach a database";
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
        }
        self.databases.guard().statement(query, &self.folder)
    }
}

/// Reads the rows of a query.
pub(super) fn read(base: &Base, query: &Statement, outlet: &mut Outlet) -> Result<(), TaskError> {
    base.check(query)?;
    let lease = base.connect()?;
    let sent = query.text();
    pump(lease.connection(), &sent.text, &sent.params, outlet)
}

/// Reads a file that DuckDB supports.
pub(super) fn read_file(
    base: &Base,
    file: &Path,
    format: Format,
    outlet: &mut Outlet,
) -> Result<(), TaskError> {
    let lease = base.connect()?;
    let text = format!("SELECT * FROM {}", reader(file, format));
    pump(lease.connection(), &text, &[], outlet)
}

fn pump(
    connection: &Connection,
    sql: &str,
    params: &[Value],
    outlet: &mut Outlet,
) -> Result<(), TaskError> {
    let mut rows = connection
        .run(sql, params)
        .map_err(|fault| failed(&fault))?;
    outlet.begin(unique(rows.names().iter().cloned()));
    while let Some(chunk) = rows.next().map_err(|fault| failed(&fault))? {
        for row in chunk.rows() {
            if outlet.push(row) {
                outlet.send_blocking()?;
            }
        }
    }
    Ok(())
}

/// Writes all chunks to a table in one transaction.
pub(super) fn write(
    base: &Base,
    table: &str,
    mode: &Mode,
    mut inlet: Inlet,
) -> Result<Totals, TaskError> {
    let lease = base.connect()?;
    let connection = lease.connection();
    let told = |fault: Fault| failed(&fault);
    connection.execute("BEGIN").map_err(told)?;
    let done = fill(connection, table, mode, &mut inlet);
    match done {
        Ok(()) => connection.execute("COMMIT").map_err(told)?,
        Err(error) => {
            // The connection is closed with the call, which also rolls back.
            let _ = connection.execute("ROLLBACK");
            return Err(error);
        }
    }
    Ok(inlet.totals)
}

fn fill(
    connection: &Connection,
    table: &str,
    mode: &Mode,
    inlet: &mut Inlet,
) -> Result<(), TaskError> {
    let told = |fault: Fault| failed(&fault);
    let name = quoted(table);
    // Report a missing table before reading the source.
    drop(
        connection
            .run(&format!("SELECT * FROM {name} LIMIT 0"), &[])
            .map_err(told)?,
    );
    if *mode == Mode::Replace {
        connection
            .execute(&format!("DELETE FROM {name}"))
            .map_err(told)?;
    }
    let mut appender: Option<Appender<'_>> = None;
    let mut columns = Vec::new();
    let mut count: u64 = 0;
    while let Some(batch) = inlet.next_blocking()? {
        if batch.rows.is_empty() {
            continue;
        }
        if appender.is_none() {
            columns = batch.columns.to_vec();
            appender = Some(begin(connection, table, mode, &columns)?);
        }
        let Some(appender) = &mut appender else {
            continue;
        };
        for row in &batch.rows {
            count += 1;
            appender
                .row(row)
                .map_err(|fault| failed(&fault).with("row", count))?;
        }
    }
    let Some(appender) = appender else {
        return Ok(());
    };
    appender.finish().map_err(told)?;
    let Mode::Upsert(key) = mode else {
        return Ok(());
    };
    let (names, keys) = (listed(&columns), listed(key));
    let conflict = on_conflict(&columns, key)?;
    // The last row with a key wins.
    let insert = format!(
        "INSERT INTO {name} ({names}) SELECT {names} FROM {STAGE} \
         QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY rowid DESC) = 1 {conflict}"
    );
    connection.execute(&insert).map_err(told)?;
    connection
        .execute(&format!("DROP TABLE {STAGE}"))
        .map_err(told)
}

fn begin<'c>(
    connection: &'c Connection,
    table: &str,
    mode: &Mode,
    columns: &[String],
) -> Result<Appender<'c>, TaskError> {
    let told = |fault: Fault| failed(&fault);
    if let Mode::Upsert(key) = mode {
        on_conflict(columns, key)?;
        let names = listed(columns);
        let stage = format!(
            "CREATE TEMP TABLE {STAGE} AS SELECT {names} FROM {} LIMIT 0",
            quoted(table)
        );
        connection.execute(&stage).map_err(told)?;
        return Appender::new(connection, None, STAGE, columns).map_err(told);
    }
    let (schema, table) = match table.rsplit_once('.') {
        Some((schema, table)) => (Some(schema), table),
        None => (None, table),
    };
    Appender::new(connection, schema, table, columns).map_err(told)
}

/// Lets DuckDB write the rows of a query to a file; returns the row count and columns.
pub(super) fn copy_out(
    base: &Base,
    query: &Statement,
    file: &Path,
    format: Format,
) -> Result<Totals, TaskError> {
    base.check(query)?;
    let lease = base.connect()?;
    let connection = lease.connection();
    let sent = query.text();
    let described = format!("SELECT * FROM ({}\n) LIMIT 0", sent.text);
    let rows = connection
        .run(&described, &sent.params)
        .map_err(|fault| failed(&fault))?;
    let columns = rows.names().to_vec();
    drop(rows);
    // `COPY` accepts no parameters, so values are inserted as literals.
    let sql = format!(
        "COPY ({}\n) TO {} ({})",
        query.text_with_literals().text,
        literal(file),
        options(format)
    );
    let rows = changed(connection, &sql)?;
    Ok(totals(rows, columns))
}

/// Lets DuckDB read a file into a table; upserts use `write`.
pub(super) fn copy_in(
    base: &Base,
    file: (&Path, Format),
    table: &str,
    (mode, mapping): (&Mode, Option<&Map<String, Value>>),
) -> Result<Totals, TaskError> {
    let lease = base.connect()?;
    let connection = lease.connection();
    let told = |fault: Fault| failed(&fault);
    let name = quoted(table);
    drop(
        connection
            .run(&format!("SELECT * FROM {name} LIMIT 0"), &[])
            .map_err(told)?,
    );
    let rows = connection
        .run(
            &format!("SELECT * FROM {} LIMIT 0", reader(file.0, file.1)),
            &[],
        )
        .map_err(told)?;
    let found = rows.names().to_vec();
    drop(rows);
    let (columns, picked) = picked(&found, mapping)?;
    let types = types(connection, &name, &columns)?;
    let (source, values) = typed(file, &picked, &types);
    connection.execute("BEGIN").map_err(told)?;
    if *mode == Mode::Replace {
        connection
            .execute(&format!("DELETE FROM {name}"))
            .map_err(told)?;
    }
    let insert = format!(
        "INSERT INTO {name} ({}) SELECT {} FROM {source}",
        listed(&columns),
        values.join(", ")
    );
    let rows = changed(connection, &insert)?;
    connection.execute("COMMIT").map_err(told)?;
    Ok(totals(rows, columns))
}

/// SQL types of some columns of a table.
fn types(
    connection: &Connection,
    table: &str,
    columns: &[String],
) -> Result<Vec<String>, TaskError> {
    let told = |fault: Fault| failed(&fault);
    let sql = format!(
        "SELECT column_type FROM (DESCRIBE SELECT {} FROM {table})",
        listed(columns)
    );
    let mut rows = connection.run(&sql, &[]).map_err(told)?;
    let mut types = Vec::new();
    while let Some(chunk) = rows.next().map_err(told)? {
        let first = chunk.rows().filter_map(|row| row.into_iter().next());
        types.extend(first.filter_map(|value| value.as_str().map(str::to_owned)));
    }
    Ok(types)
}

/// SQL that reads a file without type inference, and an expression for each column. Text and JSON get the types of the
/// target's columns; bytes in them are base64.
fn typed(
    (file, format): (&Path, Format),
    picked: &[String],
    types: &[String],
) -> (String, Vec<String>) {
    let is_bytes = |of: &String| of == "BLOB" && format != Format::Parquet;
    let values = picked.iter().zip(types).map(|(name, of)| {
        let name = listed(std::slice::from_ref(name));
        if is_bytes(of) {
            format!("from_base64({name})")
        } else {
            name
        }
    });
    let values = values.collect();
    let layout = match format {
        Format::Csv | Format::Parquet => return (reader(file, format), values),
        Format::Ndjson => "newline_delimited",
        Format::Json => "array",
    };
    let columns = picked.iter().zip(types).map(|(name, of)| {
        let of = if is_bytes(of) { "VARCHAR" } else { of };
        format!("{}: {}", text(name), text(of))
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let source = format!(
        "read_json({}, format = '{layout}', columns = {{{columns}}})",
        literal(file)
    );
    (source, values)
}

fn picked(
    found: &[String],
    mapping: Option<&Map<String, Value>>,
) -> Result<(Vec<String>, Vec<String>), TaskError> {
    let Some(mapping) = mapping else {
        return Ok((found.to_vec(), found.to_vec()));
    };
    let from = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some((name, _)) = mapping
        .iter()
        .find(|(_, value)| !found.contains(&from(value)))
    {
        let message = format!(
            "`mapping.{name}` refers to a column that the source does not have; its columns are {}",
            found.join(", ")
        );
        return Err(TaskError::new(
            ErrorKind::Schema,
            "TRANSFER_COLUMN",
            message,
        ));
    }
    Ok((
        mapping.keys().cloned().collect(),
        mapping.values().map(from).collect(),
    ))
}

fn changed(connection: &Connection, sql: &str) -> Result<u64, TaskError> {
    let mut rows = connection.run(sql, &[]).map_err(|fault| failed(&fault))?;
    let mut count = 0;
    while let Some(chunk) = rows.next().map_err(|fault| failed(&fault))? {
        let first = chunk.rows().next().and_then(|row| row.into_iter().next());
        count += first.and_then(|value| value.as_u64()).unwrap_or(0);
    }
    Ok(count)
}

fn totals(rows: u64, columns: Vec<String>) -> Totals {
    Totals {
        rows,
        chunks: u64::from(rows > 0),
        columns,
    }
}

/// Lets DuckDB convert JSON lines to a Parquet file.
pub(super) fn parquet(base: &Base, lines: &Path, file: &Path) -> Result<(), TaskError> {
    let lease = base.connect()?;
    let sql = format!(
        "COPY (SELECT * FROM read_json({}, format = 'newline_delimited', sample_size = 100000)) TO {} (FORMAT parquet)",
        literal(lines),
        literal(file)
    );
    lease
        .connection()
        .execute(&sql)
        .map_err(|fault| failed(&fault))
}

/// SQL that reads a file. CSV columns are all text. For JSON only the keys of the rows matter, so all rows are sampled,
/// but not deeply.
fn reader(file: &Path, format: Format) -> String {
    let file = literal(file);
    let keys = "sample_size = -1, maximum_depth = 1, map_inference_threshold = -1";
    match format {
        Format::Csv => format!(
            "read_csv({file}, header = true, all_varchar = true, delim = ',', quote = '\"', escape = '\"', \
             nullstr = '', allow_quoted_nulls = false, comment = '', skip = 0)"
        ),
        Format::Ndjson => format!("read_json({file}, format = 'newline_delimited', {keys})"),
        Format::Json => format!("read_json({file}, format = 'array', {keys})"),
        Format::Parquet => format!("read_parquet({file})"),
    }
}

fn options(format: Format) -> &'static str {
    match format {
        Format::Csv => "FORMAT csv, HEADER",
        Format::Ndjson => "FORMAT json",
        Format::Json => "FORMAT json, ARRAY true",
        Format::Parquet => "FORMAT parquet",
    }
}

fn literal(file: &Path) -> String {
    text(&file.display().to_string())
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
