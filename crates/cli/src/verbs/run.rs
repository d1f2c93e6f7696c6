//! `noetl run`: runs a playbook from a file or from the catalog and prints its result.

use std::path::Path;
use std::sync::Arc;

use language::playbook::{ParseResult, Playbook};
use model::raw::RawJson;
use serde_json::{Map, Value, json};

use crate::app::{App, VerbResult};
use crate::args::{self, RunArgs};
use crate::cli_error::{CliError, Exit};
use crate::external_kinds::{self, RunLocation};
use crate::follow::{self, RunFollower};
use crate::inputs;
use crate::runs::{self, RunBackend, StartRequest};

/// Runs a playbook.
pub(crate) async fn run(app: &App, args: &RunArgs) -> VerbResult {
    if args.file == "-" && args.values.input.as_deref() == Some("-") {
        return Err(CliError::usage(
            "cannot read both the playbook and --input from standard input",
        ));
    }
    let payload = inputs::read_inputs(&args.values)?;
    if args.file != "-" && !Path::new(&args.file).exists() {
        return run_from_catalog(app, args, payload).await;
    }
    let bytes = inputs::read_file(&args.file)?;
    let parsed = external_kinds::parse_playbook(&args.file, &bytes, &app.settings, run_location(app));
    print_diagnostics(app, &parsed);
    let Some(playbook) = parsed.playbook else {
        return Ok(Exit::InvalidPlaybook);
    };
    // Without a file name, the path in the playbook is its name.
    let name = match args.file.as_str() {
        "-" => playbook.path.to_string(),
        file => file.to_owned(),
    };
    let request = StartRequest::Text {
        name,
        text: playbook.source.text.to_string(),
        payload: payload.map(|payload| RawJson::from_serializable(&payload)),
        labels: args::parse_labels(&args.labels)?,
    };
    let backend = runs::open_or_create(app)?;
    start_and_follow(app, &*backend, request, app.playbooks.share(playbook), args).await
}

/// Runs a registered playbook.
async fn run_from_catalog(app: &App, args: &RunArgs, payload: Option<Map<String, Value>>) -> VerbResult {
    let not_found = || {
        let message = format!("playbook `{}` not found", args.file);
        CliError::new(Exit::NotFound, "FILE_NOT_FOUND", message).help(
            "no file and no registered playbook has this name; list registered playbooks with `noetl catalog list`",
        )
    };
    // A lookup must not create a store.
    let backend = match runs::open_existing(app) {
        Err(problem) if problem.code == "STORE_NOT_FOUND" => return Err(not_found()),
        backend => backend?,
    };
    let (path, version) = language::playbook::parse_catalog_id(&args.file);
    let entry = backend.find_playbook(path, version).await?.ok_or_else(not_found)?;
    let text = entry.content.unwrap_or_default();
    let parsed = external_kinds::parse_playbook(&entry.path, text.as_bytes(), &app.settings, run_location(app));
    print_diagnostics(app, &parsed);
    let Some(playbook) = parsed.playbook else {
        return Ok(Exit::InvalidPlaybook);
    };
    let request = StartRequest::Catalog {
        path: entry.path,
        version: Some(entry.version),
        payload: payload.map(|payload| RawJson::from_serializable(&payload)),
        labels: args::parse_labels(&args.labels)?,
    };
    start_and_follow(app, &*backend, request, app.playbooks.share(playbook), args).await
}

/// Returns where a playbook started by this command runs.
fn run_location(app: &App) -> RunLocation {
    match app.settings.remote_address() {
        Some(_) => RunLocation::Remote,
        None => RunLocation::Local,
    }
}

async fn start_and_follow(
    app: &App,
    backend: &dyn RunBackend,
    start_request: StartRequest,
    playbook: Arc<Playbook>,
    args: &RunArgs,
) -> VerbResult {
    let run = backend.start_run(start_request, &args.drive_args).await?;
    if args.drive_args.detach {
        return detach_run(app, run).await;
    }
    let description = follow::describe_run(backend, run.id(), playbook.name.to_string(), Some(playbook));
    let follow = RunFollower {
        app,
        backend,
        run,
        description,
    };
    follow.follow_to_end(&args.drive_args).await
}

/// Prints errors in full, but only the number of warnings; `validate` prints those.
fn print_diagnostics(app: &App, parsed: &ParseResult) {
    let out = &app.output;
    if parsed.has_errors() {
        for diagnostic in &parsed.diagnostics {
            out.error(&diagnostic.render(out.stderr.diagnostic_style()));
        }
        if out.is_machine() {
            out.print_json(&json!({ "status": "INVALID", "diagnostics": parsed.diagnostics }));
        }
        return;
    }
    let warnings = parsed.diagnostics.iter();
    let warnings = warnings.filter(|warning| warning.is_warning()).count();
    if warnings > 0 {
        let count = crate::render::human::format_counted(warnings, "warning");
        out.info(&out.stderr.warn(&format!("{count}; run `noetl validate` for details")));
    }
}

async fn detach_run(app: &App, run: Box<dyn runs::DrivenRun + '_>) -> VerbResult {
    let (id, location) = (run.id(), run.detached_location());
    run.detach().await?;
    if app.output.is_machine() {
        app.output
            .print_json(&json!({ "execution_id": id, "status": "RUNNING", "result": null, "error": null }));
    } else {
        app.output.print_data(&id.to_string());
        app.output.info(&format!("running {location}   noetl events {id} -f"));
    }
    Ok(Exit::Done)
}
