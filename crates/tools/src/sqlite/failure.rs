//! Converts SQLite errors to task errors, with the SQLSTATE that Postgres would return.

use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use rusqlite::ErrorCode;
use rusqlite::ffi;
use serde_json::json;

/// Why a command failed.
#[derive(Debug)]
pub enum SqliteError {
    /// Error of SQLite in this statement.
    Database {
        error: rusqlite::Error,
        statement: FailedSqliteStatement,
    },
    /// Error found by the tool.
    Task(Box<TaskError>),
}

/// The failed statement.
#[derive(Debug, Clone, Default)]
pub struct FailedSqliteStatement {
    /// Index in the command.
    pub(crate) index: usize,
    /// Whether it contains values of templates.
    pub(crate) has_values: bool,
    /// Line where SQLite stopped parsing, if it reports one.
    pub(crate) line: Option<usize>,
}

impl From<TaskError> for SqliteError {
    fn from(error: TaskError) -> Self {
        Self::Task(Box::new(error))
    }
}

impl SqliteError {
    /// Converts the failure to an outcome.
    pub fn into_outcome(self) -> Outcome {
        match self {
            Self::Task(error) => Outcome::error(*error),
            Self::Database { error, statement } => database_outcome(&error, &statement),
        }
    }

    /// Whether SQLite was interrupted on request.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Database { error, .. }
            if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted))
    }
}

fn database_outcome(error: &rusqlite::Error, statement: &FailedSqliteStatement) -> Outcome {
    let mut message = match error {
        // Leave out the statement's text.
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    let (kind, code, sqlstate) = classify(error, &message);
    match code {
        "SQLITE_TOOBIG" => message.push_str("; a text or blob may have at most 32 MiB"),
        "SQLITE_FULL" => {
            message.push_str("; a database in memory may have at most 256 MiB; use a file");
        }
        _ => {}
    }
    if sqlstate == "42601" && statement.has_values {
        message.push_str("; a table or column name needs `| ident`");
    }
    let mut task_error = TaskError::new(kind, code, message)
        .with_detail("sqlstate", sqlstate)
        .with_detail("statement", statement.index);
    if let Some(line) = statement.line {
        task_error = task_error.with_detail("line", line);
    }
    task_error.retryable = matches!(kind, ErrorKind::DbTimeout | ErrorKind::DbDeadlock);
    Outcome::error(task_error).with_facets(Facets {
        pg: Some(json!({"code": sqlstate, "sqlstate": sqlstate})),
        ..Facets::default()
    })
}

fn classify(error: &rusqlite::Error, message: &str) -> (ErrorKind, &'static str, &'static str) {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => (ErrorKind::DbTimeout, "SQLITE_BUSY", "55P03"),
        Some(ErrorCode::DatabaseLocked) => (ErrorKind::DbDeadlock, "SQLITE_LOCKED", "40P01"),
        Some(ErrorCode::ConstraintViolation) => {
            let state = constraint_state(error.sqlite_extended_error_code());
            (ErrorKind::DbConstraint, "SQLITE_CONSTRAINT", state)
        }
        Some(ErrorCode::CannotOpen) => (ErrorKind::DbConnection, "SQLITE_CANTOPEN", "08001"),
        Some(ErrorCode::NotADatabase) => (ErrorKind::DbConnection, "SQLITE_NOTADB", "08001"),
        Some(ErrorCode::DatabaseCorrupt) => (ErrorKind::Storage, "SQLITE_CORRUPT", "XX001"),
        Some(ErrorCode::DiskFull) => (ErrorKind::Storage, "SQLITE_FULL", "53100"),
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Storage, "SQLITE_IOERR", "58030"),
        Some(ErrorCode::ReadOnly) => (ErrorKind::ClientError, "SQLITE_READONLY", "25006"),
        Some(ErrorCode::PermissionDenied) => (ErrorKind::Auth, "SQLITE_PERM", "42501"),
        Some(ErrorCode::TypeMismatch) => (ErrorKind::ClientError, "SQLITE_MISMATCH", "42804"),
        Some(ErrorCode::TooBig) => (ErrorKind::ClientError, "SQLITE_TOOBIG", "54000"),
        _ => (ErrorKind::ClientError, "SQLITE_ERROR", state_by_message(message)),
    }
}

fn constraint_state(extended: Option<i32>) -> &'static str {
    match extended {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID) => {
            "23505"
        }
        Some(ffi::SQLITE_CONSTRAINT_NOTNULL) => "23502",
        Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => "23503",
        Some(ffi::SQLITE_CONSTRAINT_CHECK) => "23514",
        _ => "23000",
    }
}

fn state_by_message(message: &str) -> &'static str {
    if message.contains("syntax error") || message.contains("incomplete input") {
        "42601"
    } else if message.contains("no such table") {
        "42P01"
    } else if message.contains("no such column") || message.contains("has no column") {
        "42703"
    } else if message.contains("no such function") {
        "42883"
    } else if message.contains("already exists") {
        "42P07"
    } else {
        "XX000"
    }
}
