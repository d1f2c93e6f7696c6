//! Statements run in order on one connection, and the answer written as JSON text while its rows come.

use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tools::sql::{SqlStatement, StatementText, memory_bytes, unique_names};
use tools::{exhausted_error, find_lasting_shortage};

use super::aliases::Aliases;
use super::failure::{ExecutedStatement, failure_outcome};
use super::ffi::{AnswerKind, DuckdbConnection, DuckdbRows};
use super::guard::StoreGuard;
use super::{DuckdbError, task_error};

/// What is handed on at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Rows of all statements but the last are held, up to this size.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Statements that change nothing.
const READ_ONLY_VERBS: [&str; 4] = ["SELECT", "FROM", "VALUES", "TABLE"];
/// Maximum number of times that a statement is run again to learn why it failed.
const CAUSE_ATTEMPTS_MAX: usize = 20;

/// Statements that begin with these manage transactions by themselves, or cannot run inside one.
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

/// Statements that begin with these take no parameters, or not everywhere.
const WITHOUT_PARAMETERS: [&str; 9] = [
    "COMMENT", "CREATE", "ALTER", "ATTACH", "PRAGMA", "PREPARE", "EXPORT", "IMPORT", "DESCRIBE",
];

/// What a call runs.
pub(super) struct StatementBatch {
    pub(super) statements: Vec<SqlStatement>,
    pub(super) aliases: Aliases,
    /// Settings of the database for this call.
    pub(super) settings: Vec<String>,
    pub(super) base: PathBuf,
    pub(super) guard: StoreGuard,
}

/// Writes the text of an answer in chunks to the task that stores it.
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
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.chunks.blocking_send(piece.into());
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Why the statements of a call did not end well.
pub(super) enum StatementsError {
    Failed(Box<Outcome>),
    /// The receiver of the answer was dropped.
    ReaderGone,
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

/// Runs everything; several statements are one transaction unless they say otherwise.
pub(super) fn run_statements(
    connection: &DuckdbConnection,
    work: &StatementBatch,
    out: &mut JsonWriter,
) -> Result<(), StatementsError> {
    for setting in &work.settings {
        connection.execute(setting).map_err(|fault| refused_outcome(&fault))?;
    }
    let _held = work.aliases.attach(connection, &work.guard)?;
    run_in_transaction(connection, work, out)?;
    // There is nothing to undo unless the author has left a transaction open.
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
    work: &StatementBatch,
    out: &mut JsonWriter,
) -> Result<(), StatementsError> {
    let is_plain = |statement: &SqlStatement| !OWN_TRANSACTION_VERBS.contains(&statement.first_word());
    let wraps = work.statements.len() > 1 && work.aliases.is_empty() && work.statements.iter().all(is_plain);
    if !wraps {
        return run_each(connection, work, out);
    }
    connection.execute("BEGIN").map_err(|fault| refused_outcome(&fault))?;
    let done = run_each(connection, work, out);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute(end).map_err(|fault| refused_outcome(&fault));
    done.and(ended.map_err(StatementsError::from))
}

fn run_each(connection: &DuckdbConnection, work: &StatementBatch, out: &mut JsonWriter) -> Result<(), StatementsError> {
    let mut earlier = Map::new();
    let mut held = 0;
    let last = work.statements.len() - 1;
    for (index, statement) in work.statements.iter().enumerate() {
        let sent = sent_text(statement);
        let run = ExecutedStatement {
            index,
            statement,
            sent: &sent,
        };
        let is_alone = last == 0;
        let told = |fault: &DuckdbError| {
            let cause = find_cause(connection, &run, fault, is_alone);
            // A statement that failed has had no effect, and a call of several is not made again.
            let shortage = is_alone.then(|| find_lasting_shortage(&cause.to_string()));
            match shortage.flatten() {
                Some(shortage) => Outcome::error(exhausted_error(&shortage)),
                None => failure_outcome(&cause, &run),
            }
        };
        work.guard.check_statement(statement, &work.base)?;
        let rows = connection.query(&sent.text, &sent.params);
        let rows = rows.map_err(|fault| told(&fault))?;
        if index < last {
            let answer = read_answer(rows, &mut held).map_err(|failure| failure.into_statements_error(told))?;
            earlier.insert(format!("command_{index}"), answer);
        } else {
            write_answer(rows, &earlier, out).map_err(|failure| failure.into_statements_error(told))?;
        }
        work.guard.check_after(statement, connection)?;
    }
    Ok(())
}

/// The text of a statement: with literals for its values, if it takes no parameters.
fn sent_text(statement: &SqlStatement) -> StatementText {
    if WITHOUT_PARAMETERS.contains(&statement.first_word()) {
        statement.text_with_literals()
    } else {
        statement.text()
    }
}

/// The error of a statement. The library stops all threads of a statement that failed on one of them, and at times tells
/// that instead of the error. Then a statement that only reads is run again, to learn what is wrong with it.
fn find_cause(
    connection: &DuckdbConnection,
    run: &ExecutedStatement<'_>,
    fault: &DuckdbError,
    is_alone: bool,
) -> DuckdbError {
    let is_unasked = |fault: &DuckdbError| fault.is_interrupt() && !connection.is_interrupted();
    if !is_unasked(fault) {
        return fault.clone();
    }
    if is_alone && READ_ONLY_VERBS.contains(&run.statement.verb.as_str()) {
        for _ in 0..CAUSE_ATTEMPTS_MAX {
            match connection.execute_with_params(&run.sent.text, &run.sent.params) {
                Err(fault) if is_unasked(&fault) => {}
                Err(fault) => return fault,
                Ok(()) => break,
            }
        }
    }
    DuckdbError::new(
        "Execution Error: the statement failed on one of its threads, and the library does not tell why; run it with `threads: 1`"
            .to_owned(),
    )
}

/// Why an answer is not whole.
enum AnswerError {
    Database(DuckdbError),
    Task(TaskError),
    /// The receiver of the rows was dropped.
    ReaderGone,
}

impl AnswerError {
    fn into_statements_error(self, told: impl Fn(&DuckdbError) -> Outcome) -> StatementsError {
        match self {
            Self::Database(fault) => told(&fault).into(),
            Self::Task(error) => error.into(),
            Self::ReaderGone => StatementsError::ReaderGone,
        }
    }
}

impl From<DuckdbError> for AnswerError {
    fn from(fault: DuckdbError) -> Self {
        Self::Database(fault)
    }
}

impl From<io::Error> for AnswerError {
    fn from(_: io::Error) -> Self {
        Self::ReaderGone
    }
}

impl From<serde_json::Error> for AnswerError {
    fn from(_: serde_json::Error) -> Self {
        Self::ReaderGone
    }
}

/// The answer of a statement that is not the last, held.
fn read_answer(mut rows: DuckdbRows<'_>, held: &mut usize) -> Result<Value, AnswerError> {
    if rows.answer_kind() != AnswerKind::Rows {
        let affected = affected_row_count(&mut rows)?;
        return Ok(json!({"columns": [], "rows": [], "row_count": 0, "affected_rows": affected}));
    }
    let columns = unique_names(rows.names().iter().cloned());
    let mut found = Vec::new();
    while let Some(chunk) = rows.next_chunk()? {
        for values in chunk.rows() {
            *held += values.iter().map(memory_bytes).sum::<usize>();
            found.push(Value::Object(columns.iter().cloned().zip(values).collect()));
        }
        if *held > BUFFERED_BYTES_MAX {
            let message = format!(
                "the rows before the last statement are larger than {BUFFERED_BYTES_MAX} bytes; select less, or in a task of its own"
            );
            let error = TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message);
            return Err(AnswerError::Task(error));
        }
    }
    let count = found.len();
    Ok(json!({"columns": columns, "rows": found, "row_count": count, "affected_rows": 0}))
}

/// Writes the answer of the last statement, row by row, and those before it behind.
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
                for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
                    let comma = if at == 0 { "" } else { "," };
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

/// How many rows a statement changed.
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

fn refused_outcome(fault: &DuckdbError) -> Outcome {
    Outcome::error(task_error(fault))
}
