//! Runs statements in order on one connection, in one transaction, and returns their rows as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::{ErrorKind, TaskError};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::{Map, Value, json};

use crate::exhaustion::{exhausted_error, find_shortage};
use crate::sql::{SqlStatement, StatementText, memory_bytes, unique_names};
use crate::sqlite::failure::{FailedSqliteStatement, SqliteError};

/// Maximum wait for the lock of another connection.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a text or blob.
const VALUE_BYTES_MAX: i32 = 32 * 1024 * 1024;
/// Maximum number of 4 KiB pages of an in-memory database: 256 MiB.
const MEMORY_PAGES_MAX: u32 = 64 * 1024;

/// Attempts to open a database: file descriptors may be freed before the shortage is detected.
const OPEN_ATTEMPTS_MAX: usize = 3;

/// Maximum total size of the rows.
const RESULT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Statements that manage transactions, or cannot run inside one.
const OWN_TRANSACTION_VERBS: [&str; 9] = [
    "BEGIN",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "PRAGMA",
    "VACUUM",
    "ATTACH",
];

/// Opens the database of a call.
pub fn open_database(database: &str, path: &Path) -> Result<Connection, SqliteError> {
    // Without the URI flag, the name is always a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open_once = || match database {
        ":memory:" => Connection::open_in_memory(),
        _ => Connection::open_with_flags(path, flags),
    };
    let mut result = open_once();
    for _ in 1..OPEN_ATTEMPTS_MAX {
        let is_unopened = |error: &rusqlite::Error| is_open_error(error);
        if !result.as_ref().is_err_and(is_unopened) || find_shortage().is_some() {
            break;
        }
        result = open_once();
    }
    let connection = result.map_err(|error| with_exhaustion(statement_error(error, 0)))?;
    if database == ":memory:" {
        connection
            .pragma_update(None, "max_page_count", MEMORY_PAGES_MAX)
            .map_err(|error| statement_error(error, 0))?;
    }
    connection
        .set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        .map_err(|error| statement_error(error, 0))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .and_then(|()| connection.pragma_update(None, "foreign_keys", true))
        .map_err(|error| statement_error(error, 0))?;
    Ok(connection)
}

/// Runs all statements; several statements run in one transaction, unless one of them manages transactions.
pub(crate) fn run_statements(
    connection: &Connection,
    statements: &[SqlStatement],
    forbidden: &[PathBuf],
) -> Result<Value, SqliteError> {
    let is_plain = |statement: &SqlStatement| !OWN_TRANSACTION_VERBS.contains(&statement.first_word());
    let wraps = statements.len() > 1 && statements.iter().all(is_plain);
    if !wraps {
        let result = run_each(connection, statements, forbidden);
        // A single failed statement has no effect.
        let is_undone = statements.len() == 1;
        let result = result.map_err(|error| if is_undone { with_exhaustion(error) } else { error })?;
        if !connection.is_autocommit() {
            return Err(TaskError::new(
                ErrorKind::Schema,
                "SQLITE_TRANSACTION_OPEN",
                "the command left a transaction open; it was rolled back. End it with COMMIT",
            )
            .into());
        }
        return Ok(result);
    }
    let transaction = connection
        .unchecked_transaction()
        .map_err(|error| with_exhaustion(statement_error(error, 0)))?;
    let result = run_each(connection, statements, forbidden).map_err(with_exhaustion)?;
    let last = statements.len() - 1;
    let committed = transaction.commit();
    committed.map_err(|error| with_exhaustion(statement_error(error, last)))?;
    Ok(result)
}

/// Rejects files of NoETL itself, under any name.
pub fn check_file(path: &Path, forbidden: &[PathBuf]) -> Result<(), TaskError> {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
    let full = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_own = |own: &PathBuf| full(own) == full(path) || (id(own).is_some() && id(own) == id(path));
    if forbidden.iter().any(is_own) {
        let message = format!("`{}` belongs to NoETL and cannot be used by tasks", path.display());
        return Err(TaskError::new(ErrorKind::Auth, "DATABASE_FORBIDDEN", message));
    }
    Ok(())
}

fn run_each(connection: &Connection, statements: &[SqlStatement], forbidden: &[PathBuf]) -> Result<Value, SqliteError> {
    let mut result = Map::new();
    let mut bytes = 0;
    for (index, statement) in statements.iter().enumerate() {
        // `CREATE_TABLE VIEW`, `CREATE_TABLE TRIGGER` and `PRAGMA` accept no parameters.
        let sql = match statement.first_word() {
            "CREATE" | "PRAGMA" => statement.text_with_literals(),
            _ => statement.text(),
        };
        let answer = execute(connection, &sql, &mut bytes).map_err(|error| {
            let line = match &error {
                rusqlite::Error::SqlInputError { offset, .. } => usize::try_from(*offset).ok(),
                _ => None,
            };
            SqliteError::Database {
                error,
                statement: FailedSqliteStatement {
                    index,
                    has_values: statement.has_values(),
                    line: line.map(|offset| sql.line_of_byte(offset)),
                },
            }
        })?;
        if statement.first_word() == "ATTACH" {
            check_attached(connection, forbidden)?;
        }
        if bytes > RESULT_BYTES_MAX {
            let message = format!("rows exceed the limit of {RESULT_BYTES_MAX} bytes; select fewer rows or columns");
            return Err(TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message).into());
        }
        if index + 1 == statements.len()
            && let Value::Object(last) = &answer
        {
            let entries = std::mem::take(&mut result);
            result.extend(last.clone());
            result.extend(entries);
        }
        result.insert(format!("command_{index}"), answer);
    }
    Ok(Value::Object(result))
}

fn execute(connection: &Connection, statement: &StatementText, bytes: &mut usize) -> rusqlite::Result<Value> {
    let changes_before = connection.total_changes();
    let mut prepared = connection.prepare(&statement.text)?;
    for (index, param) in statement.params.iter().enumerate() {
        prepared.raw_bind_parameter(index + 1, sql_value(param))?;
    }
    let columns = unique_names(prepared.column_names().map(str::to_owned));
    let mut rows = Vec::new();
    let mut cursor = prepared.raw_query();
    while let Some(row) = cursor.next()? {
        let mut map = Map::new();
        for (index, column) in columns.iter().enumerate() {
            let value = json_value(row.get_ref(index)?);
            *bytes += column.len() + memory_bytes(&value);
            map.insert(column.clone(), value);
            if *bytes > RESULT_BYTES_MAX {
                break;
            }
        }
        rows.push(Value::Object(map));
        if *bytes > RESULT_BYTES_MAX {
            break;
        }
    }
    drop(cursor);
    let row_count = rows.len();
    Ok(json!({
        "columns": columns,
        "rows": rows,
        "row_count": row_count,
        "affected_rows": connection.total_changes() - changes_before,
    }))
}

fn check_attached(connection: &Connection, forbidden: &[PathBuf]) -> Result<(), SqliteError> {
    let mut list = connection
        .prepare("PRAGMA database_list")
        .map_err(|error| statement_error(error, 0))?;
    let files = list
        .query_map([], |row| row.get::<_, String>(2))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>)
        .map_err(|error| statement_error(error, 0))?;
    for file in files.iter().filter(|file| !file.is_empty()) {
        check_file(Path::new(file), forbidden)?;
    }
    Ok(())
}

/// Converts a JSON value to a SQLite value.
pub fn sql_value(value: &Value) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(match value {
        Value::Null => SqlValue::Null,
        Value::Bool(flag) => SqlValue::Integer(i64::from(*flag)),
        Value::String(text) => SqlValue::Text(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => SqlValue::Integer(integer),
            // An integer beyond 63 bits is stored as text to keep its digits.
            (None, _) if number.is_u64() => SqlValue::Text(number.to_string()),
            (None, Some(real)) => SqlValue::Real(real),
            (None, None) => SqlValue::Text(number.to_string()),
        },
        Value::Array(_) | Value::Object(_) => SqlValue::Text(value.to_string()),
    })
}

/// Converts a SQLite value to JSON; a blob becomes base64.
pub fn json_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => json!(integer),
        ValueRef::Real(real) => json!(real),
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(blob) => Value::String(STANDARD.encode(blob)),
    }
}

/// Converts an error to a task error.
pub fn task_error(error: rusqlite::Error) -> TaskError {
    match statement_error(error, 0).into_outcome() {
        model::outcome::Outcome::Error(error) => error.error,
        model::outcome::Outcome::Ok(_) => unreachable!("a failure gives an error outcome"),
    }
}

fn is_open_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Failure of statements without effect. If a file could not be opened, reports a shortage of file descriptors as the
/// cause.
fn with_exhaustion(failed: SqliteError) -> SqliteError {
    match &failed {
        SqliteError::Database { error, .. } if is_open_error(error) => match find_shortage() {
            Some(shortage) => exhausted_error(&shortage).into(),
            None => failed,
        },
        _ => failed,
    }
}

fn statement_error(error: rusqlite::Error, index: usize) -> SqliteError {
    SqliteError::Database {
        error,
        statement: FailedSqliteStatement {
            index,
            ..FailedSqliteStatement::default()
        },
    }
}
