//! `noetl register`: registers playbooks and credentials; none of them if a file is invalid.

use std::path::Path;

use language::playbook::Playbook;
use serde_json::{Value, json};
use wire::api::SetCredentialRequest;

use crate::app::{App, VerbResult};
use crate::args::RegisterArgs;
use crate::cli_error::{CliError, Exit};
use crate::external_kinds::{self, RunLocation};
use crate::inputs;
use crate::runs::{self, RegisterOutput};
use crate::verbs::secret;
use crate::verbs::validate::{DEPTH_MAX, collect_files, looks_like_playbook};

/// Registers playbooks and credentials.
pub(crate) async fn register(app: &App, args: &RegisterArgs) -> VerbResult {
    let Some(files) = read_files(app, args)? else {
        return Ok(Exit::InvalidPlaybook);
    };
    if files.playbooks.is_empty() && files.credentials.is_empty() {
        app.output.info("no playbooks or credentials found");
        return Ok(Exit::Done);
    }
    let backend = runs::open_or_create(app)?;
    let mut registered_entries: Vec<Value> = Vec::new();
    for credential in &files.credentials {
        let registered = backend.set_credential(credential).await?;
        if !app.output.is_machine() {
            app.output.print_data(&secret::credential_line(&registered));
        }
        registered_entries.push(json!(registered));
    }
    for playbook in &files.playbooks {
        let (path, text) = (playbook.path.as_str(), &playbook.source.text);
        let registered = backend.register(path, text).await?;
        if !app.output.is_machine() {
            app.output.print_data(&register_line(&registered));
        }
        registered_entries.push(json!(registered));
    }
    if app.output.is_machine() {
        app.output.print_records(&registered_entries);
    }
    Ok(Exit::Done)
}

/// Content of the files.
#[derive(Default)]
struct RegisterFiles {
    playbooks: Vec<Playbook>,
    credentials: Vec<SetCredentialRequest>,
}

/// Parses a credential: a map with `name`, `type` and `data`. Returns `None` for other files.
fn parse_credential(bytes: &[u8]) -> Option<SetCredentialRequest> {
    if looks_like_playbook(bytes) {
        return None;
    }
    let value = language::playbook::parse_data("credential", bytes).ok()?;
    let is_one = value.get("data").is_some_and(Value::is_object);
    is_one.then(|| serde_json::from_value(value).ok()).flatten()
}

/// Returns whether a file that is not a valid credential was probably meant as one. Errors must not quote such a file.
fn looks_like_credential(name: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let has = |line: &str, key: &str| {
        let tail = line.strip_prefix(key);
        tail.is_some_and(|tail| tail.trim_start().starts_with(':'))
    };
    let contains_key = |key: &str| text.contains(&format!("\"{key}\"")) || text.lines().any(|line| has(line, key));
    let is_playbook = ["workflow", "steps", "apiVersion"].into_iter().any(contains_key);
    let is_json = Path::new(name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    !is_playbook && (is_json || contains_key("data") || contains_key("type"))
}

/// Returns the error for an invalid credential file, without quoting the file.
fn credential_error(name: &str, bytes: &[u8]) -> CliError {
    let reason = match language::playbook::parse_data("credential", bytes) {
        Err(_) => "neither valid JSON nor valid YAML".to_owned(),
        Ok(Value::Object(map)) => {
            let is_text = |key: &&str| map.get(*key).is_some_and(Value::is_string);
            let texts = ["name", "type"].into_iter().filter(|key| !is_text(key));
            let data = (!map.get("data").is_some_and(Value::is_object)).then_some("data");
            let missing: Vec<String> = texts.chain(data).map(|key| format!("`{key}`")).collect();
            match missing.as_slice() {
                [] => "unknown keys".to_owned(),
                missing => format!("missing or invalid {}", missing.join(", ")),
            }
        }
        Ok(_) => "not a map".to_owned(),
    };
    let message = format!("invalid credential file `{name}`: {reason}");
    CliError::new(Exit::Usage, "CREDENTIAL_INVALID", message)
        .help("expected a map: {name: NAME, type: TYPE, data: {KEY: VALUE}}")
}

fn register_line(registered: &RegisterOutput) -> String {
    let status = if registered.is_new { "new" } else { "unchanged" };
    format!("{}@{}   {status}", registered.path, registered.version)
}

/// Reads the playbooks and credentials. Prints the errors and returns `None` if a playbook has any.
fn read_files(app: &App, args: &RegisterArgs) -> Result<Option<RegisterFiles>, CliError> {
    let mut files: Vec<(String, bool)> = Vec::new();
    for dir in &args.dir {
        collect_files(Path::new(dir), DEPTH_MAX, &mut files)?;
    }
    let paths = args.files.iter().chain(&args.file);
    files.extend(paths.map(|file| (file.clone(), true)));
    let mut register_files = RegisterFiles::default();
    let mut diagnostics = Vec::new();
    let mut is_valid = true;
    for (name, is_explicit) in files {
        let bytes = inputs::read_file(&name)?;
        if let Some(credential) = parse_credential(&bytes) {
            register_files.credentials.push(credential);
            continue;
        }
        if is_explicit && looks_like_credential(&name, &bytes) {
            return Err(credential_error(&name, &bytes));
        }
        // A directory may contain other YAML files; a file that the user named must be a playbook.
        if !is_explicit && !looks_like_playbook(&bytes) {
            continue;
        }
        let parsed = external_kinds::parse_playbook(&name, &bytes, &app.settings, RunLocation::Remote);
        is_valid &= !parsed.has_errors();
        diagnostics.extend(parsed.diagnostics);
        register_files.playbooks.extend(parsed.playbook);
    }
    if is_valid {
        return Ok(Some(register_files));
    }
    for diagnostic in &diagnostics {
        app.output
            .error(&diagnostic.render(app.output.stderr.diagnostic_style()));
    }
    if app.output.is_machine() {
        app.output
            .print_json(&json!({ "status": "INVALID", "diagnostics": diagnostics }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_broken_credential_does_not_quote_it() {
        for (name, text, expected) in [
            ("c.yaml", "type: bearer\ndata: {token: canary-1}\n", "`name`"),
            ("c.yaml", "name: c\ntype: bearer\ndata: canary-1\n", "`data`"),
            ("c.yaml", "name: c\ndata:\n  token: [canary-1\n", "neither"),
            ("c.json", "{\"name\": \"c\", \"token\": \"canary-1\"}", "`type`, `data`"),
            ("c.json", "{\"token\": \"canary-1\"", "neither"),
            ("c.json", "[\"canary-1\"]", "not a map"),
            ("c.yaml", "name: c\ntype: bearer\ntoken: canary-1\n", "`data`"),
        ] {
            let bytes = text.as_bytes();
            assert!(parse_credential(bytes).is_none(), "{text}");
            assert!(looks_like_credential(name, bytes), "{text}");
            let problem = credential_error(name, bytes);
            assert!(problem.message.contains(expected), "{}", problem.message);
            assert!(!format!("{problem:?}").contains("canary"), "{problem:?}");
        }
    }

    #[test]
    fn an_invalid_playbook_is_still_recognized() {
        for (name, text) in [
            ("p.yaml", "workflow:\n  - step: a\n    data: 1\n"),
            ("p.yaml", "apiVersion: noetl.io/v2\ndata: 1\n"),
            ("p.json", "{\"metadata\": {}, \"workflow\": []}"),
            ("p.yaml", "metadata: {name: p}\n"),
        ] {
            assert!(!looks_like_credential(name, text.as_bytes()), "{text}");
        }
    }
}
