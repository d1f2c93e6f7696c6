//! What only a deployment knows of a playbook: the kinds it adds, and the stores that are configured.

use model::diagnostic::Diagnostic;
use model::playbook::kinds::is_external;
use model::playbook::{Parsed, Playbook, Task};

use crate::config::Settings;
use crate::local;

/// Who will run the playbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// This process: what it does not know, it cannot run.
    Here,
    /// Somebody else, who may know more.
    Elsewhere,
}

/// Reads a playbook, and checks it against the manifests that are known here.
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

/// A store that the task names and that is not configured here.
fn missing_store(playbook: &Playbook, task: &Task, settings: &Settings) -> Option<Diagnostic> {
    let store = task.result.store.as_ref()?;
    let kind = results::Kind::named(store.as_str())?;
    let is_directory = matches!(local::place(settings), local::Place::Directory(_));
    let remedy = match kind {
        results::Kind::Postgres if is_directory => "start the server with --store postgres://…",
        kind => settings.storage.missing(kind)?,
    };
    let message = format!(
        "the store `{store}` of task `{}` is not configured here",
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
            Runner::Here => finding("E0108", format!("no tool kind is called `{kind}`"))
                .label("name the directory of its manifest with --tools DIR or NOETL_TOOLS_DIR"),
            Runner::Elsewhere => finding("W219", format!("nothing is known here of kind `{kind}`"))
                .label("its keys are not checked; with --tools DIR they are"),
        }];
    };
    let faults = manifest.faults(task).into_iter();
    faults
        .map(|fault| finding("E0127", fault).label("as its manifest says"))
        .collect()
}
