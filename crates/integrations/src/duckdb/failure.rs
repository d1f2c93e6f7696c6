//! Converts `DuckDB` errors to task errors, with the SQLSTATE that Postgres would return.

use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use serde_json::json;
use tools::sql::{SqlStatement, StatementText};

/// Error message of the library: `Parser Error: …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DuckdbError {
    message: String,
}

impl DuckdbError {
    pub(crate) fn new(message: String) -> Self {
        Self { message }
    }

    /// Error of a column whose type cannot be converted.
    pub(crate) fn unreadable_column(column: &str, id: u32) -> Self {
        Self::new(format!(
            "Not implemented Error: cannot convert the type of column `{column}` (number {id}) to JSON; cast it: `{column}::VARCHAR`"
        ))
    }

    /// Whether the message is empty, which means no error.
    pub(crate) fn is_empty(&self) -> bool {
        self.message.is_empty()
    }

    /// Whether the library was interrupted on request.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.class() == "INTERRUPT"
    }

    /// Line where the library stopped parsing: `LINE 2: …`.
    fn line(&self) -> Option<usize> {
        let tail = self.message.lines().find_map(|line| line.strip_prefix("LINE "));
        tail?.split_once(':')?.0.parse().ok()
    }

    /// The word before `Error`, in uppercase: `PARSER`. Appender errors do not have one.
    fn class(&self) -> String {
        if self.message.starts_with("Failed to append") && self.message.contains("constraint") {
            return "CONSTRAINT".to_owned();
        }
        let head = self.message.split_once(" Error").map_or("", |(head, _)| head);
        let is_class = head.len() <= 24 && head.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
        if is_class {
            head.to_ascii_uppercase().replace(' ', "_")
        } else {
            String::new()
        }
    }

    fn classify(&self) -> (ErrorKind, &'static str, &'static str) {
        let mentions = |phrase: &str| self.message.contains(phrase);
        match self.class().as_str() {
            "PARSER" | "SYNTAX" => (ErrorKind::ClientError, "DUCKDB_SYNTAX", "42601"),
            "CATALOG" if mentions("Table with name") && mentions("does not exist") => {
                (ErrorKind::ClientError, "DUCKDB_CATALOG", "42P01")
            }
            "CATALOG" if mentions("already exists") => (ErrorKind::ClientError, "DUCKDB_CATALOG", "42P07"),
            "CATALOG" => (ErrorKind::ClientError, "DUCKDB_CATALOG", "42704"),
            "BINDER" if mentions("column") => (ErrorKind::ClientError, "DUCKDB_BINDER", "42703"),
            "BINDER" => (ErrorKind::ClientError, "DUCKDB_BINDER", "42000"),
            "CONSTRAINT" if mentions("uplicate key") => (ErrorKind::DbConstraint, "DUCKDB_CONSTRAINT", "23505"),
            "CONSTRAINT" if mentions("NOT NULL") => (ErrorKind::DbConstraint, "DUCKDB_CONSTRAINT", "23502"),
            "CONSTRAINT" if mentions("foreign key") => (ErrorKind::DbConstraint, "DUCKDB_CONSTRAINT", "23503"),
            "CONSTRAINT" => (ErrorKind::DbConstraint, "DUCKDB_CONSTRAINT", "23514"),
            "CONVERSION" | "OUT_OF_RANGE" | "MISMATCH_TYPE" => (ErrorKind::ClientError, "DUCKDB_CONVERSION", "22000"),
            "TRANSACTION" | "TRANSACTIONCONTEXT" => (ErrorKind::DbDeadlock, "DUCKDB_TRANSACTION", "40001"),
            "OUT_OF_MEMORY" => (ErrorKind::Storage, "DUCKDB_MEMORY", "53200"),
            "IO" if mentions("lock on file") => (ErrorKind::DbTimeout, "DUCKDB_LOCKED", "55P03"),
            "IO" if mentions("Extension \"") => (ErrorKind::ClientError, "DUCKDB_EXTENSION", "58P01"),
            "IO" if mentions("No files found") || mentions("No such file") => {
                (ErrorKind::NotFound, "DUCKDB_IO", "58P01")
            }
            "IO" => (ErrorKind::Storage, "DUCKDB_IO", "58030"),
            "HTTP" => (ErrorKind::Connection, "DUCKDB_HTTP", "08006"),
            "MISSING_EXTENSION" | "AUTOLOAD" | "EXTENSION_AUTOLOADING" => {
                (ErrorKind::ClientError, "DUCKDB_EXTENSION", "58P01")
            }
            "PERMISSION" => (ErrorKind::Auth, "DUCKDB_PERMISSION", "42501"),
            "INTERRUPT" => (ErrorKind::Cancelled, "CANCELLED", "57014"),
            _ => (ErrorKind::ClientError, "DUCKDB_ERROR", "XX000"),
        }
    }

    /// Task error and its SQLSTATE.
    pub(crate) fn to_task_error(&self) -> (TaskError, &'static str) {
        let (kind, code, sqlstate) = self.classify();
        let mut message = self.message.clone();
        if code == "DUCKDB_EXTENSION" {
            message.push_str(
                "; workers do not download extensions: run `INSTALL …` once on the machine, or set NOETL_DUCKDB_EXTENSIONS to a directory with it",
            );
        }
        let mut error = TaskError::new(kind, code, message).with_detail("sqlstate", sqlstate);
        error.retryable = matches!(
            kind,
            ErrorKind::DbTimeout | ErrorKind::DbDeadlock | ErrorKind::Connection
        );
        (error, sqlstate)
    }
}

impl From<DuckdbError> for TaskError {
    fn from(error: DuckdbError) -> Self {
        error.to_task_error().0
    }
}

/// An executed statement.
pub(super) struct ExecutedStatement<'a> {
    /// Index in the command.
    pub(super) index: usize,
    pub(super) statement: &'a SqlStatement,
    pub(super) sql: &'a StatementText,
}

/// Outcome of a failed statement.
pub(super) fn failure_outcome(cause: &DuckdbError, executed: &ExecutedStatement<'_>) -> Outcome {
    let (mut error, sqlstate) = cause.to_task_error();
    if let Some(line) = cause.line() {
        error = error.with_detail("line", executed.sql.line_of_line(line));
    }
    if sqlstate == "42601" && executed.statement.has_values() {
        error.message.push_str("; a table or column name needs `| ident`");
    }
    let facets = Facets {
        pg: Some(json!({"code": sqlstate, "sqlstate": sqlstate})),
        ..Facets::default()
    };
    Outcome::error(error.with_detail("statement", executed.index)).with_facets(facets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classified() {
        let code = |text: &str| TaskError::from(DuckdbError::new(text.to_owned())).code;
        let appended = "Failed to append: Duplicate key \"id: 2\" violates primary key constraint.";
        assert_eq!(code(appended), "DUCKDB_CONSTRAINT");
        assert_eq!(code("Parser Error: syntax error at or near \"x\""), "DUCKDB_SYNTAX");
        assert_eq!(
            code("IO Error: Could not set lock on file \"/tmp/x\": Conflicting lock"),
            "DUCKDB_LOCKED"
        );
        assert_eq!(
            code("IO Error: Extension \"/x/httpfs.duckdb_extension\" not found."),
            "DUCKDB_EXTENSION"
        );
        assert_eq!(code("something else"), "DUCKDB_ERROR");
        let with_line = "Binder Error: no column \"x\"\n\nLINE 3: x\n        ^";
        assert_eq!(DuckdbError::new(with_line.to_owned()).line(), Some(3));
        assert!(TaskError::from(DuckdbError::new("TransactionContext Error: Conflict".to_owned())).retryable);
    }
}
