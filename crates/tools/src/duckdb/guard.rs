//! Prevents tasks from accessing NoETL's own store: its file, and its Postgres database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use super::aliases::{literal, quoted};
use super::ffi::Connection;
use super::{Fault, failed};
use crate::postgres::{STORE, STORE_TABLES};
use crate::sql::{Dialect, Statement, literals};
use crate::sqlite::check_file;

/// Functions that connect to a given server without attaching it.
const UNATTACHED: [&str; 2] = ["postgres_scan", "postgres_attach"];
/// Statements that may attach a database.
const ATTACHING: [&str; 2] = ["ATTACH", "IMPORT"];

/// Access rules for tasks.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    forbidden: Arc<[PathBuf]>,
    /// Names of Postgres databases that tasks may use although they contain a NoETL store.
    allowed: Arc<[String]>,
}

impl Guard {
    pub(crate) fn new(forbidden: &[PathBuf], allowed: &[String]) -> Self {
        Self {
            forbidden: forbidden.into(),
            allowed: allowed.into(),
        }
    }

    /// Rejects a file of NoETL itself.
    pub(crate) fn file(&self, file: &Path) -> Result<(), TaskError> {
        check_file(file, &self.forbidden)
    }

    /// Rejects a statement that names a file of NoETL itself, as a literal or a value, or that bypasses `ATTACH`.
    pub(crate) fn statement(&self, statement: &Statement, base: &Path) -> Result<(), TaskError> {
        let sent = statement.text();
        let text = sent.text.to_ascii_lowercase();
        if let Some(name) = UNATTACHED.iter().find(|name| text.contains(*name)) {
            let message = format!(
                "`{name}` is not allowed, because it bypasses the database checks; attach the database with an alias in `auth`, or with ATTACH"
            );
            return Err(forbidden(message));
        }
        if self.forbidden.is_empty() {
            return Ok(());
        }
        let values = sent.params.iter().filter_map(Value::as_str);
        let values = values.map(str::to_owned);
        // A file can be read by name like a table; such names contain dots.
        let names = statement.given_names().iter().cloned();
        for name in literals(&sent.text, Dialect::Duckdb)
            .into_iter()
            .chain(values)
            .chain(names)
        {
            let path = name.strip_prefix("file://").unwrap_or(&name);
            self.file(&base.join(path))?;
            self.file(Path::new(path))?;
        }
        Ok(())
    }

    /// Checks the databases that a statement may have attached.
    pub(super) fn after(
        &self,
        statement: &Statement,
        connection: &Connection,
    ) -> Result<(), TaskError> {
        if may_attach(statement) {
            return self.attached(connection);
        }
        Ok(())
    }

    /// Checks all attached databases. A rejected one is detached, because other tasks share the database.
    pub(super) fn attached(&self, connection: &Connection) -> Result<(), TaskError> {
        let sql = "SELECT database_name, path, type FROM duckdb_databases() WHERE NOT internal";
        for row in rows(connection, sql).map_err(|fault| failed(&fault))? {
            let text = |at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default();
            let (name, path) = (text(0), text(1));
            let checked = match text(2) {
                "postgres" => self.server(connection, name),
                _ if path.is_empty() => Ok(()),
                _ => self.file(Path::new(path)),
            };
            if let Err(error) = checked {
                if let Err(fault) = connection.execute(&format!("DETACH {}", quoted(name))) {
                    tracing::debug!(%fault, "failed to detach rejected database");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Rejects a NoETL store, recognized by its tables, unless it is allowed by name.
    fn server(&self, connection: &Connection, alias: &str) -> Result<(), TaskError> {
        let sql = format!(
            "SELECT n, name FROM postgres_query({}, {})",
            literal(alias),
            literal(STORE)
        );
        let found = rows(connection, &sql).map_err(|fault| failed(&fault))?;
        let row = found.first().map(Vec::as_slice).unwrap_or_default();
        let count = row.first().and_then(Value::as_i64).unwrap_or(STORE_TABLES);
        let name = row.get(1).and_then(Value::as_str).unwrap_or_default();
        if count < STORE_TABLES || self.allowed.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        Err(forbidden(format!(
            "`{name}`, attached as `{alias}`, is the database of a NoETL store and cannot be used by tasks; use a separate \
             database for your data, or allow it with NOETL_POSTGRES_ALLOW"
        )))
    }
}

/// Whether a statement may attach a database.
pub(crate) fn may_attach(statement: &Statement) -> bool {
    ATTACHING.contains(&statement.first_word())
}

/// All rows of a short result.
pub(super) fn rows(connection: &Connection, sql: &str) -> Result<Vec<Vec<Value>>, Fault> {
    let mut rows = connection.run(sql, &[])?;
    let mut found = Vec::new();
    while let Some(chunk) = rows.next()? {
        found.extend(chunk.rows());
    }
    Ok(found)
}

fn forbidden(message: String) -> TaskError {
    TaskError::new(ErrorKind::Auth, "DATABASE_FORBIDDEN", message)
}
