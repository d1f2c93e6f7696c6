//! Converts server errors to task errors: kind, whether a retry can help, and a remedy.

use std::error::Error as _;

use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use serde_json::{Value, json};
use tokio_postgres::error::{DbError, ErrorPosition};

use crate::sql::StatementText;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum PostgresError {
    /// Error of the server or the connection.
    Server {
        error: tokio_postgres::Error,
        statement: Option<FailedStatement>,
    },
    /// Error found by the tool.
    Task(Box<TaskError>),
}

/// The statement that was running.
#[derive(Debug, Clone)]
pub(super) struct FailedStatement {
    /// Index in the command.
    pub(super) statement: usize,
    /// Text that was sent.
    pub(super) sent: StatementText,
    /// Whether it contains values of templates (`{{ … }}`).
    pub(super) has_values: bool,
}

impl From<TaskError> for PostgresError {
    fn from(error: TaskError) -> Self {
        Self::Task(Box::new(error))
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server { error, statement: None }
    }
}

impl PostgresError {
    /// Converts the failure to an outcome.
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Self::Task(error) => Outcome::error(*error),
            Self::Server { error, statement } => match error.as_db_error() {
                Some(db) => server_error_outcome(db, statement.as_ref()),
                None => Outcome::error(connection_lost_error(&error)),
            },
        }
    }

    /// Whether the connection is still usable, because the server returned an ordinary error.
    pub(super) fn is_server_error(&self) -> bool {
        match self {
            Self::Task(_) => false,
            Self::Server { error, .. } => {
                let severity = error.as_db_error().map(DbError::severity);
                severity.is_some_and(|severity| severity == "ERROR") && !error.is_closed()
            }
        }
    }

    /// Whether the server cancelled the statement on request.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Server { error, .. }
            if error.code().is_some_and(|code| code.code() == "57014"))
    }
}

/// Converts an error of the server or the connection to a task error.
pub fn task_error(error: tokio_postgres::Error) -> TaskError {
    match PostgresError::from(error).into_outcome() {
        Outcome::Error(failure) => failure.error,
        Outcome::Ok(_) => unreachable!("a failure gives an error outcome"),
    }
}

/// Error of a failed connection attempt; nothing was sent.
pub(super) fn connect_error(error: &tokio_postgres::Error, location: &str) -> TaskError {
    let task_error = if let Some(db) = error.as_db_error() {
        let (kind, retryable) = classify(db.code().code());
        let code = format!("PG_{}", db.code().code());
        let mut message = format!("{location}: {}", db.message());
        message.push_str(remedy(db.code().code(), false));
        TaskError {
            retryable,
            ..TaskError::new(kind, code, message)
        }
    } else {
        let cause = error.source().map(|cause| format!(": {cause}"));
        let message = format!("cannot connect to {location}{}", cause.unwrap_or_default());
        TaskError {
            retryable: true,
            ..TaskError::new(ErrorKind::DbConnection, "PG_CONNECT", message)
        }
    };
    task_error.with_detail("sent", false)
}

/// Error of a connection attempt that timed out; nothing was sent.
pub(super) fn connect_timeout_error(location: &str) -> TaskError {
    TaskError {
        retryable: true,
        ..TaskError::new(
            ErrorKind::DbConnection,
            "PG_CONNECT",
            format!("cannot connect to {location}: timed out"),
        )
    }
    .with_detail("sent", false)
}

/// Outcome of statements that exceeded the task's `timeout` and were cancelled on the server.
pub(super) fn timeout_outcome(limit: std::time::Duration) -> Outcome {
    let message = format!(
        "timed out after {limit:?}; the statements were cancelled{}",
        remedy("57014", false)
    );
    let error = TaskError::new(ErrorKind::DbTimeout, "PG_57014", message)
        .with_detail("sqlstate", "57014")
        .with_detail("timeout_seconds", limit.as_secs_f64());
    Outcome::error(error).with_facets(sql_facets("57014", None, None))
}

/// Error of a lost connection; whether the statement took effect is unknown.
fn connection_lost_error(error: &tokio_postgres::Error) -> TaskError {
    let cause = error.source().map(|cause| format!(": {cause}"));
    let message = format!(
        "connection lost while a statement was running: {error}{}",
        cause.unwrap_or_default()
    );
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::DbConnection, "PG_LOST", message)
    }
}

/// Outcome of a statement that the server rejected.
fn server_error_outcome(db: &DbError, failed: Option<&FailedStatement>) -> Outcome {
    let state = db.code().code();
    let (kind, retryable) = classify(state);
    let has_values = failed.is_some_and(|failed| failed.has_values);
    let message = format!("{}{}", db.message(), remedy(state, has_values));
    let mut error = TaskError {
        retryable,
        ..TaskError::new(kind, format!("PG_{state}"), message)
    }
    .with_detail("sqlstate", state);
    for (key, value) in [
        ("detail", db.detail()),
        ("hint", db.hint()),
        ("table", db.table()),
        ("column", db.column()),
        ("constraint", db.constraint()),
    ] {
        if let Some(value) = value {
            error = error.with_detail(key, value);
        }
    }
    let mut position = None;
    if let Some(failed) = failed {
        error = error.with_detail("statement", failed.statement);
        if let Some(ErrorPosition::Original(at)) = db.position() {
            position = Some(*at);
            // Positions count characters from 1.
            let index = at.saturating_sub(1) as usize;
            error = error.with_detail("line", failed.sent.line_of_char(index));
        }
    }
    Outcome::error(error).with_facets(sql_facets(state, db.constraint(), position))
}

fn sql_facets(state: &str, constraint: Option<&str>, position: Option<u32>) -> Facets {
    Facets {
        pg: Some(json!({
            "code": state,
            "sqlstate": state,
            "constraint": constraint,
            "position": position.map_or(Value::Null, Value::from),
        })),
        ..Facets::default()
    }
}

/// Error kind of a SQLSTATE, and whether a retry can help.
fn classify(state: &str) -> (ErrorKind, bool) {
    match state {
        "40001" | "40P01" => (ErrorKind::DbDeadlock, true),
        "57014" | "25P03" | "25P04" => (ErrorKind::DbTimeout, false),
        "55P03" => (ErrorKind::DbTimeout, true),
        "40003" | "53300" | "57P01" | "57P02" | "57P03" | "57P05" => (ErrorKind::DbConnection, true),
        "42501" => (ErrorKind::Auth, false),
        "3D000" | "3F000" | "P0002" | "58P01" => (ErrorKind::NotFound, false),
        _ => match state.get(..2).unwrap_or_default() {
            "08" => (ErrorKind::DbConnection, true),
            "22" | "42" => (ErrorKind::Schema, false),
            "23" | "40" | "44" => (ErrorKind::DbConstraint, false),
            "28" => (ErrorKind::Auth, false),
            "53" | "58" => (ErrorKind::ServerError, true),
            "XX" => (ErrorKind::ServerError, false),
            _ => (ErrorKind::ClientError, false),
        },
    }
}

fn remedy(state: &str, has_values: bool) -> &'static str {
    match state {
        "42601" if has_values => "; a table or column name needs `| ident`",
        "22P02" | "42804" | "42883" if has_values => "; check the type of the value, or add a cast such as `::text`",
        "42P18" => "; add a cast such as `::text` to the value",
        "42P01" | "3F000" => "; check the name, or set `schema`",
        "28P01" | "28000" => "; check the user and password of the credential",
        "3D000" => "; create the database, or correct the credential",
        "42501" => "; grant the privilege to the user of the credential",
        "40001" | "40P01" | "55P03" => "; safe to retry: add a `do: retry` rule",
        "57014" => "; raise `timeout`, or process less data per call",
        "53300" => "; raise `max_connections`, or run fewer tasks at once",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_have_kinds_and_only_transient_ones_are_retryable() {
        for (state, kind, retryable) in [
            ("40001", ErrorKind::DbDeadlock, true),
            ("40P01", ErrorKind::DbDeadlock, true),
            ("57014", ErrorKind::DbTimeout, false),
            ("23505", ErrorKind::DbConstraint, false),
            ("28P01", ErrorKind::Auth, false),
            ("42601", ErrorKind::Schema, false),
            ("42P01", ErrorKind::Schema, false),
            ("3D000", ErrorKind::NotFound, false),
            ("08006", ErrorKind::DbConnection, true),
            ("57P01", ErrorKind::DbConnection, true),
            ("P0001", ErrorKind::ClientError, false),
        ] {
            assert_eq!(classify(state), (kind, retryable), "{state}");
        }
    }
}
