//! `noetl secret`: creates, lists and removes credentials, on a server or in a local store.

use model::time::Time;
use serde_json::Value;
use wire::api::{CredentialEntry, SetCredentialRequest};

use crate::app::{App, VerbResult};
use crate::args::SecretVerb;
use crate::cli_error::{CliError, Exit};
use crate::clock;
use crate::inputs;
use crate::render::human;
use crate::render::table::{ListFormat, print_list};
use crate::runs::{self, RunBackend};

/// Runs a `secret` subcommand.
pub(crate) async fn secret(app: &App, verb: SecretVerb) -> VerbResult {
    match verb {
        SecretVerb::Set { name, kind, file, data } => {
            let data = read_data(file.as_deref(), data.as_deref())?;
            let request = SetCredentialRequest { name, kind, data };
            set_credential(app, &*runs::open_or_create(app)?, &request).await
        }
        SecretVerb::List => list_credentials(app, &*runs::open_existing(app)?).await,
        SecretVerb::Rm { name } => {
            runs::open_existing(app)?.remove_credential(&name).await?;
            let tick = app.output.stderr.tick();
            app.output.info(&format!("{tick} removed credential `{name}`"));
            Ok(Exit::Done)
        }
        SecretVerb::RotateKey => rotate_key(app).await,
    }
}

async fn set_credential(app: &App, backend: &dyn RunBackend, request: &SetCredentialRequest) -> VerbResult {
    let stored = backend.set_credential(request).await?;
    if app.output.is_machine() {
        app.output.print_json(&stored);
    } else {
        app.output.print_data(&credential_line(&stored));
    }
    Ok(Exit::Done)
}

/// Returns one line about a stored credential.
pub(crate) fn credential_line(credential: &CredentialEntry) -> String {
    format!(
        "{}   {}   version {}",
        credential.name, credential.kind, credential.version
    )
}

/// Reads the fields of a credential. Errors never quote the input.
fn read_data(file: Option<&str>, data: Option<&str>) -> Result<Value, CliError> {
    let (name, bytes) = match (file, data) {
        (Some(file), _) => (file, inputs::read_file(file)?),
        (None, Some("-")) => ("standard input", inputs::read_file("-")?),
        (None, Some(text)) => ("--data", text.as_bytes().to_vec()),
        (None, None) => return Err(CliError::usage("pass --file or --data")),
    };
    let value = language::playbook::parse_data(name, &bytes).ok();
    let value = value.filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    let value = value.ok_or_else(|| {
        CliError::usage(format!("invalid {name}: expected a JSON or YAML map"))
            .help("for example {\"token\": \"…\"} for --type bearer")
    })?;
    // A complete credential file has the fields under `data`.
    match value.get("data") {
        Some(Value::Object(inner)) if value.get("name").is_some() => Ok(Value::Object(inner.clone())),
        _ => Ok(value),
    }
}

async fn list_credentials(app: &App, backend: &dyn RunBackend) -> VerbResult {
    let now = clock::now();
    let format = ListFormat {
        headings: &["NAME", "TYPE", "VERSION", "UPDATED", "LAST USED"],
        empty_message: "no credentials",
    };
    let credentials = backend.list_credentials().await?;
    print_list(&app.output, &credentials, &format, |entry| credential_row(entry, now));
    Ok(Exit::Done)
}

fn credential_row(entry: &CredentialEntry, now: Time) -> Vec<String> {
    let used_at = entry.last_used_at;
    vec![
        human::escape_controls(&entry.name),
        human::escape_controls(&entry.kind),
        entry.version.to_string(),
        human::format_age(entry.updated_at, now),
        used_at.map_or_else(|| "never".to_owned(), |time| human::format_age(time, now)),
    ]
}

async fn rotate_key(app: &App) -> VerbResult {
    let rotated = runs::open_existing(app)?.rotate_key().await?;
    if app.output.is_machine() {
        app.output.print_json(&rotated);
    } else {
        app.output.print_data(&format!(
            "master key {}   re-encrypted: {}, remaining: {}",
            rotated.key_id, rotated.rewrapped, rotated.remaining
        ));
    }
    if rotated.remaining > 0 {
        app.output.info(
            "the remaining credentials need the old key: set NOETL_MASTER_KEY_OLD, or set those credentials again",
        );
        return Ok(Exit::NotAllowed);
    }
    Ok(Exit::Done)
}
