//! Checks a playbook against this deployment: its external tools and its configured result stores.

use language::diagnostic::Diagnostic;
use language::playbook::kinds::is_external;
use language::playbook::{ParseResult, Playbook, Task};

use crate::config::Settings;
use crate::control_plane;

/// Where the playbook will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// In this process: an unknown tool kind is an error.
    Local,
    /// On a server that may have more tool kinds: an unknown one is a warning.
    Remote,
}

/// Parses a playbook and checks it against the configured tool manifests.
pub(crate) fn parse_playbook(name: &str, bytes: &[u8], settings: &Settings, location: RunLocation) -> ParseResult {
    let mut parsed = language::playbook::parse(name, bytes);
    let Some(playbook) = &parsed.playbook else {
        return parsed;
    };
    let diagnostics = check_playbook(playbook, settings, location);
    if diagnostics.iter().any(Diagnostic::is_error) {
        parsed.playbook = None;
    }
    parsed.diagnostics.extend(diagnostics);
    parsed.diagnostics.sort_by_key(|diagnostics| diagnostics.span.start);
    parsed
}

fn check_playbook(playbook: &Playbook, settings: &Settings, location: RunLocation) -> Vec<Diagnostic> {
    let tasks = playbook.steps.iter().flat_map(language::playbook::Step::all_tasks);
    let mut diagnostics = Vec::new();
    for task in tasks {
        if is_external(task.kind.as_str()) {
            diagnostics.extend(check_external_task(playbook, task, settings, location));
        }
        diagnostics.extend(missing_store(playbook, task, settings));
    }
    diagnostics
}

/// Returns a warning if the result store of a task is not configured here.
fn missing_store(playbook: &Playbook, task: &Task, settings: &Settings) -> Option<Diagnostic> {
    let store = task.result.store.as_ref()?;
    let kind = results::StoreKind::from_name(store.as_str())?;
    let is_directory = matches!(
        control_plane::store_location(settings),
        control_plane::StoreLocation::Directory(_)
    );
    let remedy = match kind {
        results::StoreKind::Postgres if is_directory => "start the server with --store postgres://…",
        kind => settings.storage.configuration_remedy(kind)?,
    };
    let message = format!("store `{store}` of task `{}` is not configured here", task.label);
    let diagnostic = Diagnostic::new("W233", message, task.span, &playbook.source);
    let diagnostic = diagnostic.with_label("the default store is used");
    Some(diagnostic.with_help(format!("{remedy}   noetl explain W233")))
}

fn check_external_task(
    playbook: &Playbook,
    task: &Task,
    settings: &Settings,
    location: RunLocation,
) -> Vec<Diagnostic> {
    let kind = task.kind.as_str();
    let diagnostic = |code, message| Diagnostic::new(code, message, task.span, &playbook.source);
    let manifest = settings.external.iter().find(|manifest| manifest.name == kind);
    let Some(manifest) = manifest else {
        return vec![match location {
            RunLocation::Local => diagnostic("E0108", format!("unknown tool kind `{kind}`"))
                .with_label("set the directory of its manifest with --tools DIR or NOETL_TOOLS_DIR"),
            RunLocation::Remote => diagnostic("W219", format!("no manifest for tool kind `{kind}`"))
                .with_label("its keys are not checked; add the manifest with --tools DIR"),
        }];
    };
    let faults = manifest.find_problems(task).into_iter();
    faults
        .map(|problem| diagnostic("E0127", problem).with_label("required by the tool manifest"))
        .collect()
}
