//! Setup and reset of a pooled session.

use serde_json::Value;
use tokio_postgres::Client;

use crate::call::Call;
use crate::postgres::failure::PostgresError;
use crate::sql::SqlStatement;

/// Makes backslashes literal in strings, whatever the role or database sets; escaped values depend on it.
pub(super) const SESSION_SETTINGS: &str = "SET standard_conforming_strings = on";

/// Undoes what a call may leave: transaction, settings, locks, temporary tables. `DISCARD ALL` also drops the driver's
/// prepared statements and cannot be combined with other statements.
pub(super) const RESET_SESSION: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES; \
    SET standard_conforming_strings = on";

/// Statements with effects that `RESET_SESSION` does not undo.
const LASTING_VERBS: [&str; 4] = ["PREPARE", "DEALLOCATE", "DISCARD", "LOAD"];

/// Whether a session can be reused after these statements.
pub(super) fn is_reusable(statements: &[SqlStatement]) -> bool {
    let lasts = |statement: &SqlStatement| LASTING_VERBS.contains(&statement.first_word());
    !statements.iter().any(lasts)
}

/// Prepares a session for a call: statement timeout and search path.
pub(super) async fn prepare_session(client: &Client, call: &Call) -> Result<(), PostgresError> {
    let mut settings = Vec::new();
    if let Some(limit) = call.timeout.total {
        let limit = limit.as_millis().clamp(1, 2_147_483_647);
        settings.push(format!("SET statement_timeout = {limit}"));
    }
    if let Some(path) = search_path(call)? {
        settings.push(format!("SET search_path TO {path}"));
    }
    if !settings.is_empty() {
        client.batch_execute(&settings.join("; ")).await?;
    }
    Ok(())
}

/// Names in `schema`, quoted.
fn search_path(call: &Call) -> Result<Option<String>, PostgresError> {
    let names: Vec<&str> = match call.field("schema") {
        None => return Ok(None),
        Some(Value::String(names)) => names.split(',').map(str::trim).collect(),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            names.iter().filter_map(Value::as_str).collect()
        }
        Some(other) => {
            return Err(call
                .wrong_type_error("schema", "a name or a list of names", other)
                .into());
        }
    };
    let quoted = names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    let quoted: Vec<String> = quoted.collect();
    Ok((!quoted.is_empty()).then(|| quoted.join(", ")))
}
