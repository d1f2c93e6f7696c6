//! `noetl register`: puts playbooks into the catalog and credentials into the store; all of them, or none if one is
//! invalid.

use std::path::Path;

use model::playbook::Playbook;
use serde_json::{Value, json};
use wire::api::CredentialRequest;

use crate::added::{self, Runner};
use crate::app::{App, Ended};
use crate::args::RegisterArgs;
use crate::inputs;
use crate::problem::{Exit, Problem};
use crate::runs::{self, Kept};
use crate::verbs::secret;
use crate::verbs::validate::{DEPTH_MAX, collect, looks_like_playbook};

/// Registers playbooks and credentials.
pub(crate) async fn register(app: &App, args: &RegisterArgs) -> Ended {
    let Some(given) = read(app, args)? else {
        return Ok(Exit::InvalidPlaybook);
    };
    if given.playbooks.is_empty() && given.credentials.is_empty() {
        app.out.note("no playbooks");
        return Ok(Exit::Done);
    }
    let runs = runs::fresh(app)?;
    let mut kept: Vec<Value> = Vec::new();
    for credential in &given.credentials {
        let one = runs.set_credential(credential).await?;
        if !app.out.is_machine() {
            app.out.data(&secret::line(&one));
        }
        kept.push(json!(one));
    }
    for playbook in &given.playbooks {
        let (path, text) = (playbook.path.as_str(), &playbook.source.text);
        let one = runs.register(path, text).await?;
        if !app.out.is_machine() {
            app.out.data(&line(&one));
        }
        kept.push(json!(one));
    }
    if app.out.is_machine() {
        app.out.records(&kept);
    }
    Ok(Exit::Done)
}

/// What the files hold.
#[derive(Default)]
struct Given {
    playbooks: Vec<Playbook>,
    credentials: Vec<CredentialRequest>,
}

/// The credential in a file: a map with `name`, `type` and `data`, and no steps.
fn credential(bytes: &[u8]) -> Option<CredentialRequest> {
    if looks_like_playbook(bytes) {
        return None;
    }
    let value = model::playbook::data("credential", bytes).ok()?;
    let is_one = value.get("data").is_some_and(Value::is_object);
    is_one.then(|| serde_json::from_value(value).ok()).flatten()
}

fn line(kept: &Kept) -> String {
    let word = if kept.is_new { "new" } else { "unchanged" };
    format!("{}@{}   {word}", kept.path, kept.version)
}

/// The playbooks and credentials that are meant; none if one of them has errors, which are shown.
fn read(app: &App, args: &RegisterArgs) -> Result<Option<Given>, Problem> {
    let mut files: Vec<(String, bool)> = Vec::new();
    for dir in &args.dir {
        collect(Path::new(dir), DEPTH_MAX, &mut files)?;
    }
    let named = args.files.iter().chain(&args.file);
    files.extend(named.map(|file| (file.clone(), true)));
    let mut given = Given::default();
    let mut findings = Vec::new();
    let mut is_valid = true;
    for (name, is_asked) in files {
        let bytes = inputs::bytes(&name)?;
        if let Some(credential) = credential(&bytes) {
            given.credentials.push(credential);
            continue;
        }
        // A directory may hold other YAML; a file that was named is meant as a playbook.
        if !is_asked && !looks_like_playbook(&bytes) {
            continue;
        }
        let parsed = added::parse(&name, &bytes, &app.settings, Runner::Elsewhere);
        is_valid &= !parsed.has_errors();
        findings.extend(parsed.diagnostics);
        given.playbooks.extend(parsed.playbook);
    }
    if is_valid {
        return Ok(Some(given));
    }
    for finding in &findings {
        app.out
            .complain(&finding.render(app.out.stderr.diagnostics()));
    }
    if app.out.is_machine() {
        app.out
            .json(&json!({ "status": "INVALID", "diagnostics": findings }));
    }
    Ok(None)
}
