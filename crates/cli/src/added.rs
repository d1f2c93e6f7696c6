//! Checks a playbook against this deployment: its external tools and its configured result stores.

use model::diagnostic::Diagnostic;
use model::playbook::kinds::is_external;
use model::playbook::{Parsed, Playbook, Task};

use crate::config::Settings;
use crate::local;

/// Where the playbook will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// In this process: an unknown tool kind is an error.
    Here,
    /// On a server that may have more tool kinds: an unknown one is a warning.
    Elsewhere,
}

/// Parses a playbook and checks it against the configured tool manifests.
pub(crate) fn parse(name: &str, bytes: &[u8], settings: &Settings, runner: Runner) -> Parsed {
    let mut parsed = model::playbook::parse(name, bytes);
    let Some(playbook) = &parsed.playbook else {
        return parsed;
    };
    let found = findings(playbook, settings, runner);
    if found.iter().any(Diagnostic::is_error) {
        parsed.playbook = None;
    }
    parsed.diagnostics.extend(found);
    parsed.diagnostics.sort_by_key(|found| found.span.start);
    parsed
}

fn findings(playbook: &Playbook, settings: &Settings, runner: Runner) -> Vec<Diagnostic> {
    let tasks = playbook
        .steps
        .iter()
        .flat_map(model::playbook::Step::all_tasks);
    let mut findings = Vec::new();
    for task in tasks {
        if is_external(task.kind.as_str()) {
            findings.extend(of_task(playbook, task, settings, runner));
        }
        findings.extend(missing_store(playbook, task, settings));
    }
    findings
}

/// Returns a warning if the result store of a task is not configured here.
fn missing_store(playbook: &Playbook, task: &Task, settings: &Settings) -> Option<Diagnostic> {
    let store = task.result.store.as_ref()?;
    let kind = results::Kind::named(store.as_str())?;
    let is_directory = matches!(local::place(settings), local::Place::Directory(_));
    let remedy = match kind {
        results::Kind::Postgres if is_directory => "start the server with --store postgres://…",
        kind => settings.storage.missing(kind)?,
    };
    let message = format!(
        "store `{store}` of task `{}` is not configured here",
        task.label
    );
    let finding = Diagnostic::new("W233", message, task.span, &playbook.source);
    let finding = finding.label("the default store is used");
    Some(finding.help(format!("{remedy}   noetl explain W233")))
}

fn of_task(
    playbook: &Playbook,
    task: &Task,
    settings: &Settings,
    runner: Runner,
) -> Vec<Diagnostic> {
    let kind = task.kind.as_str();
    let finding = |code, message| Diagnostic::new(code, message, task.span, &playbook.source);
    let manifest = settings
        .external
        .iter()
        .find(|manifest| manifest.name == kind);
    let Some(manifest) = manifest else {
        return vec![match runner {
            Runner::Here => finding("E0108", format!("unknown tool kind `{kind}`"))
                .label("set the directory of its manifest with --tools DIR or NOETL_TOOLS_DIR"),
            Runner::Elsewhere => finding("W219", format!("no manifest for tool kind `{kind}`"))
                .label("its keys are not checked; add the manifest with --tools DIR"),
        }];
    };
    let faults = manifest.faults(task).into_iter();
    faults
        .map(|fault| finding("E0127", fault).label("required by the tool manifest"))
        .collect()
}
