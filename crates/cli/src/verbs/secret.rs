//! `noetl secret`: creates, lists and removes credentials, on a server or in a local store.

use model::time::Time;
use serde_json::Value;
use wire::api::{CredentialEntry, CredentialRequest};

use crate::app::{App, Ended};
use crate::args::SecretVerb;
use crate::clock;
use crate::inputs;
use crate::problem::{Exit, Problem};
use crate::render::{human, table};
use crate::runs::{self, Runs};

/// Runs a `secret` subcommand.
pub(crate) async fn secret(app: &App, verb: SecretVerb) -> Ended {
    match verb {
        SecretVerb::Set {
            name,
            kind,
            file,
            data,
        } => {
            let data = data_of(file.as_deref(), data.as_deref())?;
            let request = CredentialRequest { name, kind, data };
            set(app, &*runs::fresh(app)?, &request).await
        }
        SecretVerb::List => list(app, &*runs::existing(app)?).await,
        SecretVerb::Rm { name } => {
            runs::existing(app)?.remove_credential(&name).await?;
            let tick = app.out.stderr.tick();
            app.out.note(&format!("{tick} removed credential `{name}`"));
            Ok(Exit::Done)
        }
        SecretVerb::RotateKey => rotate(app).await,
    }
}

async fn set(app: &App, runs: &dyn Runs, request: &CredentialRequest) -> Ended {
    let kept = runs.set_credential(request).await?;
    if app.out.is_machine() {
        app.out.json(&kept);
    } else {
        app.out.data(&line(&kept));
    }
    Ok(Exit::Done)
}

/// Returns one line about a stored credential.
pub(crate) fn line(kept: &CredentialEntry) -> String {
    format!("{}   {}   version {}", kept.name, kept.kind, kept.version)
}

/// Reads the fields of a credential. Errors never quote the input.
fn data_of(file: Option<&str>, data: Option<&str>) -> Result<Value, Problem> {
    let (name, bytes) = match (file, data) {
        (Some(file), _) => (file, inputs::bytes(file)?),
        (None, Some("-")) => ("standard input", inputs::bytes("-")?),
        (None, Some(text)) => ("--data", text.as_bytes().to_vec()),
        (None, None) => return Err(Problem::usage("pass --file or --data")),
    };
    let value = model::playbook::data(name, &bytes).ok();
    let value = value.filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    let value = value.ok_or_else(|| {
        Problem::usage(format!("invalid {name}: expected a JSON or YAML map"))
            .help("for example {\"token\": \"…\"} for --type bearer")
    })?;
    // A complete credential file has the fields under `data`.
    match value.get("data") {
        Some(Value::Object(inner)) if value.get("name").is_some() => {
            Ok(Value::Object(inner.clone()))
        }
        _ => Ok(value),
    }
}

async fn list(app: &App, runs: &dyn Runs) -> Ended {
    let (out, now) = (&app.out, clock::now());
    let credentials = runs.credentials().await?;
    if out.is_machine() {
        out.records(&credentials);
    } else if credentials.is_empty() {
        out.note("no credentials");
    } else {
        let lines = credentials.iter().map(|entry| row(entry, now)).collect();
        let headings = ["NAME", "TYPE", "VERSION", "UPDATED", "LAST USED"];
        out.data(&table::table(&headings, lines, out.stdout));
    }
    Ok(Exit::Done)
}

fn row(entry: &CredentialEntry, now: Time) -> Vec<String> {
    let used = entry.last_used_at;
    vec![
        human::tame(&entry.name),
        human::tame(&entry.kind),
        entry.version.to_string(),
        human::ago(entry.updated_at, now),
        used.map_or_else(|| "never".to_owned(), |at| human::ago(at, now)),
    ]
}

async fn rotate(app: &App) -> Ended {
    let rotated = runs::existing(app)?.rotate_key().await?;
    if app.out.is_machine() {
        app.out.json(&rotated);
    } else {
        app.out.data(&format!(
            "master key {}   re-encrypted: {}, remaining: {}",
            rotated.key_id, rotated.rewrapped, rotated.remaining
        ));
    }
    if rotated.remaining > 0 {
        app.out.note("the remaining credentials need the old key: set NOETL_MASTER_KEY_OLD, or set those credentials again");
        return Ok(Exit::NotAllowed);
    }
    Ok(Exit::Done)
}
