//! Prevents tasks from accessing NoETL's own store: its file, and its Postgres database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;
use tools::postgres::{COUNT_STORE_TABLES, STORE_TABLES};
use tools::sql::{SqlDialect, SqlStatement, quoted_texts};
use tools::sqlite::check_file;

use super::DuckdbError;
use super::aliases::{quote_literal, quote_name};
use super::ffi::DuckdbConnection;

/// Functions that connect to a given server without attaching it.
const SERVER_FUNCTIONS: [&str; 2] = ["postgres_scan", "postgres_attach"];
/// Statements that may attach a database.
const ATTACHING_VERBS: [&str; 2] = ["ATTACH", "IMPORT"];

/// Access rules for tasks.
#[derive(Clone, Default)]
pub(crate) struct StoreGuard {
    forbidden: Arc<[PathBuf]>,
    /// Names of Postgres databases that tasks may use although they contain a NoETL store.
    allowed: Arc<[String]>,
}

impl StoreGuard {
    pub(crate) fn new(forbidden: &[PathBuf], allowed: &[String]) -> Self {
        Self {
            forbidden: forbidden.into(),
            allowed: allowed.into(),
        }
    }

    /// Rejects a file of NoETL itself.
    pub(crate) fn check_file(&self, file: &Path) -> Result<(), TaskError> {
        check_file(file, &self.forbidden)
    }

    /// Rejects a statement that names a file of NoETL itself, as a literal or a value, or that bypasses `ATTACH`.
    pub(crate) fn check_statement(&self, statement: &SqlStatement, base: &Path) -> Result<(), TaskError> {
        let sent = statement.text();
        let text = sent.text.to_ascii_lowercase();
        if let Some(name) = SERVER_FUNCTIONS.iter().find(|name| text.contains(*name)) {
            let message = format!(
                "`{name}` is not allowed, because it bypasses the database checks; attach the database with an alias in `auth`, or with ATTACH"
            );
            return Err(forbidden_error(message));
        }
        if self.forbidden.is_empty() {
            return Ok(());
        }
        let values = sent.params.iter().filter_map(Value::as_str);
        let values = values.map(str::to_owned);
        // A file can be read by name like a table; such names contain dots.
        let names = statement.value_names().iter().cloned();
        for name in quoted_texts(&sent.text, SqlDialect::Duckdb)
            .into_iter()
            .chain(values)
            .chain(names)
        {
            let path = name.strip_prefix("file://").unwrap_or(&name);
            self.check_file(&base.join(path))?;
            self.check_file(Path::new(path))?;
        }
        Ok(())
    }

    /// Checks the databases that a statement may have attached.
    pub(super) fn check_after(&self, statement: &SqlStatement, connection: &DuckdbConnection) -> Result<(), TaskError> {
        if may_attach(statement) {
            return self.check_attached(connection);
        }
        Ok(())
    }

    /// Checks all attached databases. A rejected one is detached, because other tasks share the database.
    pub(super) fn check_attached(&self, connection: &DuckdbConnection) -> Result<(), TaskError> {
        let sql = "SELECT database_name, path, type FROM duckdb_databases() WHERE NOT internal";
        for row in query_rows(connection, sql)? {
            let text = |index: usize| row.get(index).and_then(Value::as_str).unwrap_or_default();
            let (name, path) = (text(0), text(1));
            let checked = match text(2) {
                "postgres" => self.check_server(connection, name),
                _ if path.is_empty() => Ok(()),
                _ => self.check_file(Path::new(path)),
            };
            if let Err(error) = checked {
                if let Err(error) = connection.execute(&format!("DETACH {}", quote_name(name))) {
                    tracing::debug!(%error, "failed to detach rejected database");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Rejects a NoETL store, recognized by its tables, unless it is allowed by name.
    fn check_server(&self, connection: &DuckdbConnection, alias: &str) -> Result<(), TaskError> {
        let sql = format!(
            "SELECT n, name FROM postgres_query({}, {})",
            quote_literal(alias),
            quote_literal(COUNT_STORE_TABLES)
        );
        let rows = query_rows(connection, &sql)?;
        let row = rows.first().map(Vec::as_slice).unwrap_or_default();
        let count = row.first().and_then(Value::as_i64).unwrap_or(STORE_TABLES);
        let name = row.get(1).and_then(Value::as_str).unwrap_or_default();
        if count < STORE_TABLES || self.allowed.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        Err(forbidden_error(format!(
            "`{name}`, attached as `{alias}`, is the database of a NoETL store and cannot be used by tasks; use a separate \
             database for your data, or allow it with NOETL_POSTGRES_ALLOW"
        )))
    }
}

/// Whether a statement may attach a database.
pub(crate) fn may_attach(statement: &SqlStatement) -> bool {
    ATTACHING_VERBS.contains(&statement.first_word())
}

/// All rows of a short result.
pub(super) fn query_rows(connection: &DuckdbConnection, sql: &str) -> Result<Vec<Vec<Value>>, DuckdbError> {
    let mut rows = connection.query(sql, &[])?;
    let mut all_rows = Vec::new();
    while let Some(chunk) = rows.next_chunk()? {
        all_rows.extend(chunk.rows());
    }
    Ok(all_rows)
}

fn forbidden_error(message: String) -> TaskError {
    TaskError::new(ErrorKind::Auth, "DATABASE_FORBIDDEN", message)
}
