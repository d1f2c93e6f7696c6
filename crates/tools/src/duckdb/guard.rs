//! The engine's own store is no target of tasks: its file, and its database in Postgres, by whatever way they are reached.

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

/// Functions that reach a server whose address they are given, past everything that is attached.
const UNATTACHED: [&str; 2] = ["postgres_scan", "postgres_attach"];
/// Statements that begin with these may attach a database.
const ATTACHING: [&str; 2] = ["ATTACH", "IMPORT"];

/// What tasks must not reach.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    forbidden: Arc<[PathBuf]>,
    /// The names of Postgres databases that are targets although an engine keeps its runs there.
    allowed: Arc<[String]>,
}

impl Guard {
    pub(crate) fn new(forbidden: &[PathBuf], allowed: &[String]) -> Self {
        Self {
            forbidden: forbidden.into(),
            allowed: allowed.into(),
        }
    }

    /// Refuses a file of the engine's own.
    pub(crate) fn file(&self, file: &Path) -> Result<(), TaskError> {
        check_file(file, &self.forbidden)
    }

    /// Refuses a statement that names a file of the engine's own, in quotes or as a value, or that goes past what is attached.
    pub(crate) fn statement(&self, statement: &Statement, base: &Path) -> Result<(), TaskError> {
        let sent = statement.text();
        let text = sent.text.to_ascii_lowercase();
        if let Some(name) = UNATTACHED.iter().find(|name| text.contains(*name)) {
            let message = format!(
                "`{name}` reaches a database that nobody has looked at; attach it with an alias in `auth`, or with ATTACH"
            );
            return Err(forbidden(message));
        }
        if self.forbidden.is_empty() {
            return Ok(());
        }
        let values = sent.params.iter().filter_map(Value::as_str);
        let values = values.map(str::to_owned);
        // A file may be read by its name as a table is, and such a name has dots.
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

    /// Refuses what a statement of the author's has attached.
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

    /// Looks at everything that is attached. What is refused is detached: other tasks share the database.
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
                    tracing::debug!(%fault, "a database that was refused was not detached");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Refuses the database of an engine, which is known by what is in it, unless it is allowed by its name.
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
            "`{name}`, attached as `{alias}`, is the database of an engine and cannot be a target; keep your data in a \
             database of its own, or allow it by name with NOETL_POSTGRES_ALLOW"
        )))
    }
}

/// Whether a statement may attach a database.
pub(crate) fn may_attach(statement: &Statement) -> bool {
    ATTACHING.contains(&statement.first_word())
}

/// All rows of a short answer.
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
