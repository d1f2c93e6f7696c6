//! Runs statements in order on one connection and writes the result as JSON while rows arrive.

use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tools::sql::{SqlStatement, StatementText, memory_bytes, unique_names};
use tools::{exhausted_error, find_lasting_shortage};

use super::DuckdbError;
use super::aliases::Aliases;
use super::failure::{ExecutedStatement, failure_outcome};
use super::ffi::{AnswerKind, DuckdbConnection, DuckdbRows};
use super::guard::StoreGuard;

/// Size of a chunk of the result.
const CHUNK_BYTES: usize = 64 * 1024;
/// Memory limit for the rows of all statements except the last.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Statements without side effects.
const READ_ONLY_VERBS: [&str; 4] = ["SELECT", "FROM", "VALUES", "TABLE"];
/// Maximum number of reruns of a statement to find its error.
const CAUSE_ATTEMPTS_MAX: usize = 20;

/// First words of statements that manage transactions or cannot run inside one.
const OWN_TRANSACTION_VERBS: [&str; 16] = [
    "BEGIN",
    "START",
    "COMMIT",
    "ROLLBACK",
    "ABORT",
    "ATTACH",
    "DETACH",
    "USE",
    "SET",
    "RESET",
    "PRAGMA",
    "INSTALL",
    "LOAD",
    "CHECKPOINT",
    "VACUUM",
    "EXPORT",
];

/// First words of statements that do not support parameters, or not everywhere.
const WITHOUT_PARAMETERS: [&str; 9] = [
    "COMMENT", "CREATE", "ALTER", "ATTACH", "PRAGMA", "PREPARE", "EXPORT", "IMPORT", "DESCRIBE",
];

/// Statements of a call.
pub(super) struct StatementBatch {
    pub(super) statements: Vec<SqlStatement>,
    pub(super) aliases: Aliases,
    /// Database settings for this call.
    pub(super) settings: Vec<String>,
    pub(super) base: PathBuf,
    pub(super) guard: StoreGuard,
}

/// Writes a result in chunks to the task that stores it.
pub(super) struct JsonWriter {
    buffer: Vec<u8>,
    chunks: mpsc::Sender<Bytes>,
}

impl JsonWriter {
    pub(super) fn new(chunks: mpsc::Sender<Bytes>) -> Self {
        Self {
            buffer: Vec::with_capacity(CHUNK_BYTES),
            chunks,
        }
    }
}

impl Write for JsonWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        let result = self.chunks.blocking_send(chunk.into());
        result.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Why the statements of a call failed.
pub(super) enum StatementsError {
    Failed(Box<Outcome>),
    /// The receiver of the result was dropped.
    ReceiverClosed,
}

impl From<Outcome> for StatementsError {
    fn from(outcome: Outcome) -> Self {
        Self::Failed(Box::new(outcome))
    }
}

impl From<TaskError> for StatementsError {
    fn from(error: TaskError) -> Self {
        Outcome::error(error).into()
    }
}

/// Runs all statements; several statements run in one transaction, unless one of them manages transactions.
pub(super) fn run_statements(
    connection: &DuckdbConnection,
    batch: &StatementBatch,
    out: &mut JsonWriter,
) -> Result<(), StatementsError> {
    for setting in &batch.settings {
        connection.execute(setting).map_err(refused_outcome)?;
    }
    let _attached = batch.aliases.attach(connection, &batch.guard)?;
    run_in_transaction(connection, batch, out)?;
    // This only succeeds if the command left a transaction open.
    if connection.execute_despite_interrupt("ROLLBACK").is_ok() {
        return Err(TaskError::new(
            ErrorKind::Schema,
            "DUCKDB_TRANSACTION_OPEN",
            "the command left a transaction open; it was rolled back. End it with COMMIT",
        )
        .into());
    }
    Ok(())
}

fn run_in_transaction(
    connection: &DuckdbConnection,
    batch: &StatementBatch,
    out: &mut JsonWriter,
) -> Result<(), StatementsError> {
    let is_plain = |statement: &SqlStatement| !OWN_TRANSACTION_VERBS.contains(&statement.first_word());
    let wraps = batch.statements.len() > 1 && batch.aliases.is_empty() && batch.statements.iter().all(is_plain);
    if !wraps {
        return run_each(connection, batch, out);
    }
    connection.execute("BEGIN").map_err(refused_outcome)?;
    let run_result = run_each(connection, batch, out);
    let end = if run_result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let end_result = connection.execute(end).map_err(refused_outcome);
    run_result.and(end_result.map_err(StatementsError::from))
}

fn run_each(
    connection: &DuckdbConnection,
    batch: &StatementBatch,
    out: &mut JsonWriter,
) -> Result<(), StatementsError> {
    let mut earlier = Map::new();
    let mut buffered_bytes = 0;
    let last = batch.statements.len() - 1;
    for (index, statement) in batch.statements.iter().enumerate() {
        let sql = sent_text(statement);
        let executed = ExecutedStatement {
            index,
            statement,
            sql: &sql,
        };
        let is_alone = last == 0;
        let to_outcome = |error: &DuckdbError| {
            let cause = find_cause(connection, &executed, error, is_alone);
            // A single failed statement has no effect, so the call can be repeated; a call with several statements
            // cannot.
            let shortage = is_alone.then(|| find_lasting_shortage(&cause.to_string()));
            match shortage.flatten() {
                Some(shortage) => Outcome::error(exhausted_error(&shortage)),
                None => failure_outcome(&cause, &executed),
            }
        };
        batch.guard.check_statement(statement, &batch.base)?;
        let rows = connection.query(&sql.text, &sql.params);
        let rows = rows.map_err(|error| to_outcome(&error))?;
        if index < last {
            let answer =
                read_answer(rows, &mut buffered_bytes).map_err(|failure| failure.into_statements_error(to_outcome))?;
            earlier.insert(format!("command_{index}"), answer);
        } else {
            write_answer(rows, &earlier, out).map_err(|failure| failure.into_statements_error(to_outcome))?;
        }
        batch.guard.check_after(statement, connection)?;
    }
    Ok(())
}

/// Text of a statement, with literals if it does not support parameters.
fn sent_text(statement: &SqlStatement) -> StatementText {
    if WITHOUT_PARAMETERS.contains(&statement.first_word()) {
        statement.text_with_literals()
    } else {
        statement.text()
    }
}

/// Error of a statement. If a statement fails on one thread, the library interrupts its other threads and sometimes
/// reports the interrupt instead of the error. In this case, a read-only statement is run again to get its error.
fn find_cause(
    connection: &DuckdbConnection,
    executed: &ExecutedStatement<'_>,
    error: &DuckdbError,
    is_alone: bool,
) -> DuckdbError {
    let is_foreign_interrupt = |error: &DuckdbError| error.is_interrupt() && !connection.is_interrupted();
    if !is_foreign_interrupt(error) {
        return error.clone();
    }
    if is_alone && READ_ONLY_VERBS.contains(&executed.statement.verb.as_str()) {
        for _ in 0..CAUSE_ATTEMPTS_MAX {
            match connection.execute_with_params(&executed.sql.text, &executed.sql.params) {
                Err(error) if is_foreign_interrupt(&error) => {}
                Err(error) => return error,
                Ok(()) => break,
            }
        }
    }
    DuckdbError::new(
        "Execution Error: the statement failed on one of its threads, and the library does not report why; run it with `threads: 1`"
            .to_owned(),
    )
}

/// Why a result is incomplete.
enum AnswerError {
    Database(DuckdbError),
    Task(TaskError),
    /// The receiver of the rows was dropped.
    ReceiverClosed,
}

impl AnswerError {
    fn into_statements_error(self, to_outcome: impl Fn(&DuckdbError) -> Outcome) -> StatementsError {
        match self {
            Self::Database(error) => to_outcome(&error).into(),
            Self::Task(error) => error.into(),
            Self::ReceiverClosed => StatementsError::ReceiverClosed,
        }
    }
}

impl From<DuckdbError> for AnswerError {
    fn from(error: DuckdbError) -> Self {
        Self::Database(error)
    }
}

impl From<io::Error> for AnswerError {
    fn from(_: io::Error) -> Self {
        Self::ReceiverClosed
    }
}

impl From<serde_json::Error> for AnswerError {
    fn from(_: serde_json::Error) -> Self {
        Self::ReceiverClosed
    }
}

/// Reads the result of a statement before the last into memory.
fn read_answer(mut rows: DuckdbRows<'_>, buffered_bytes: &mut usize) -> Result<Value, AnswerError> {
    if rows.answer_kind() != AnswerKind::Rows {
        let affected = affected_row_count(&mut rows)?;
        return Ok(json!({"columns": [], "rows": [], "row_count": 0, "affected_rows": affected}));
    }
    let columns = unique_names(rows.names().iter().cloned());
    let mut objects = Vec::new();
    while let Some(chunk) = rows.next_chunk()? {
        for values in chunk.rows() {
            *buffered_bytes += values.iter().map(memory_bytes).sum::<usize>();
            objects.push(Value::Object(columns.iter().cloned().zip(values).collect()));
        }
        if *buffered_bytes > BUFFERED_BYTES_MAX {
            let message = format!(
                "the rows before the last statement are larger than {BUFFERED_BYTES_MAX} bytes; select fewer rows, or use separate tasks"
            );
            let error = TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message);
            return Err(AnswerError::Task(error));
        }
    }
    let count = objects.len();
    Ok(json!({"columns": columns, "rows": objects, "row_count": count, "affected_rows": 0}))
}

/// Writes the result of the last statement row by row, followed by the earlier results.
fn write_answer(
    mut rows: DuckdbRows<'_>,
    earlier: &Map<String, Value>,
    out: &mut JsonWriter,
) -> Result<(), AnswerError> {
    let is_rows = rows.answer_kind() == AnswerKind::Rows;
    let columns = if is_rows {
        unique_names(rows.names().iter().cloned())
    } else {
        Vec::new()
    };
    let keys: Vec<String> = columns
        .iter()
        .map(|name| Value::from(name.as_str()).to_string())
        .collect();
    write!(out, "{{\"columns\":{},\"rows\":[", json!(columns))?;
    let (mut count, mut changed) = (0_u64, Value::from(0));
    if is_rows {
        while let Some(chunk) = rows.next_chunk()? {
            for values in chunk.rows() {
                out.write_all(if count == 0 { b"{" } else { b",{" })?;
                for (index, (key, value)) in keys.iter().zip(&values).enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(out, "{comma}{key}:")?;
                    serde_json::to_writer(&mut *out, value)?;
                }
                out.write_all(b"}")?;
                count += 1;
            }
        }
    } else {
        changed = affected_row_count(&mut rows)?;
    }
    write!(out, "],\"row_count\":{count},\"affected_rows\":{changed}")?;
    for (key, answer) in earlier {
        write!(out, ",\"{key}\":{answer}")?;
    }
    out.write_all(b"}")?;
    out.flush()?;
    Ok(())
}

/// Number of rows that a statement changed.
fn affected_row_count(rows: &mut DuckdbRows<'_>) -> Result<Value, DuckdbError> {
    let mut affected = Value::from(0);
    while let Some(chunk) = rows.next_chunk()? {
        let count = chunk.rows().next().and_then(|row| row.into_iter().next());
        if let Some(count @ Value::Number(_)) = count {
            affected = count;
        }
    }
    Ok(affected)
}

fn refused_outcome(error: DuckdbError) -> Outcome {
    Outcome::error(error.into())
}
