//! `noetl register`: puts playbooks into the catalog; all of them, or none if one is invalid.

use std::path::Path;

use model::playbook::Playbook;
use serde_json::json;

use crate::added::{self, Runner};
use crate::app::{App, Ended};
use crate::args::RegisterArgs;
use crate::inputs;
use crate::problem::{Exit, Problem};
use crate::runs::{self, Kept};
use crate::verbs::validate::{DEPTH_MAX, collect, looks_like_playbook};

/// Registers playbooks.
pub(crate) async fn register(app: &App, args: &RegisterArgs) -> Ended {
    let Some(playbooks) = read(app, args)? else {
        return Ok(Exit::InvalidPlaybook);
    };
    if playbooks.is_empty() {
        app.out.note("no playbooks");
        return Ok(Exit::Done);
    }
    let runs = runs::fresh(app)?;
    let mut kept = Vec::new();
    for playbook in &playbooks {
        let (path, text) = (playbook.path.as_str(), &playbook.source.text);
        let one = runs.register(path, text).await?;
        if !app.out.is_machine() {
            app.out.data(&line(&one));
        }
        kept.push(one);
    }
    if app.out.is_machine() {
        app.out.records(&kept);
    }
    Ok(Exit::Done)
}

fn line(kept: &Kept) -> String {
    let word = if kept.is_new { "new" } else { "unchanged" };
    format!("{}@{}   {word}", kept.path, kept.version)
}

/// The playbooks that are meant; none if one of them has errors, which are shown.
fn read(app: &App, args: &RegisterArgs) -> Result<Option<Vec<Playbook>>, Problem> {
    let mut files: Vec<(String, bool)> = Vec::new();
    for dir in &args.dir {
        collect(Path::new(dir), DEPTH_MAX, &mut files)?;
    }
    files.extend(args.files.iter().map(|file| (file.clone(), true)));
    let mut playbooks = Vec::new();
    let mut findings = Vec::new();
    let mut is_valid = true;
    for (name, is_asked) in files {
        let bytes = inputs::bytes(&name)?;
        // A directory may hold other YAML; a file that was named is meant as a playbook.
        if !is_asked && !looks_like_playbook(&bytes) {
            continue;
        }
        let parsed = added::parse(&name, &bytes, &app.settings, Runner::Elsewhere);
        is_valid &= !parsed.has_errors();
        findings.extend(parsed.diagnostics);
        playbooks.extend(parsed.playbook);
    }
    if is_valid {
        return Ok(Some(playbooks));
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
