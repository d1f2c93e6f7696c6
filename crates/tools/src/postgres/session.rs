//! One session with the server: how it begins, how a call finds it, how it is left for the next one.

use serde_json::Value;
use tokio_postgres::Client;

use crate::call::Call;
use crate::postgres::failure::Failure;
use crate::sql::Statement;

/// Text in quotes means itself, whatever the role or the database says: values are escaped by that.
pub(super) const BEGIN: &str = "SET standard_conforming_strings = on";

/// Undoes what a call may have left: a transaction, settings, locks, temporary tables. `DISCARD ALL` would do it, but
/// also forgets the statements the driver keeps, and cannot follow anything.
pub(super) const RESET: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES; \
    SET standard_conforming_strings = on";

/// Statements that leave what `RESET` does not undo.
const LASTING: [&str; 4] = ["PREPARE", "DEALLOCATE", "DISCARD", "LOAD"];

/// Whether a session can be used again after these statements.
pub(super) fn is_reusable(statements: &[Statement]) -> bool {
    let lasts = |statement: &Statement| LASTING.contains(&statement.first_word());
    !statements.iter().any(lasts)
}

/// Sets a session up for a call: its time and its schema.
pub(super) async fn prepare(client: &Client, call: &Call) -> Result<(), Failure> {
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

/// The names in `schema`, in quotes.
fn search_path(call: &Call) -> Result<Option<String>, Failure> {
    let names: Vec<&str> = match call.field("schema") {
        None => return Ok(None),
        Some(Value::String(names)) => names.split(',').map(str::trim).collect(),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            names.iter().filter_map(Value::as_str).collect()
        }
        Some(other) => {
            return Err(call
                .wrong_type("schema", "a name or a list of names", other)
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
