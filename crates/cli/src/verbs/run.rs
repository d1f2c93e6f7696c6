//! `noetl run`: runs a playbook from a file or from the catalog and prints its result.

use std::path::Path;

use model::playbook::{Parsed, Playbook};
use model::raw::Raw;
use serde_json::{Map, Value, json};

use crate::added::{self, Runner};
use crate::app::{App, Ended};
use crate::args::RunArgs;
use crate::drive::{self, Follow};
use crate::inputs;
use crate::problem::{Exit, Problem};
use crate::runs::{self, Begin, Runs};

/// Runs a playbook.
pub(crate) async fn run(app: &App, args: &RunArgs) -> Ended {
    if args.file == "-" && args.values.input.as_deref() == Some("-") {
        return Err(Problem::usage(
            "cannot read both the playbook and --input from standard input",
        ));
    }
    let payload = inputs::read(&args.values)?;
    if args.file != "-" && !Path::new(&args.file).exists() {
        return catalogued(app, args, payload).await;
    }
    let bytes = inputs::bytes(&args.file)?;
    let parsed = added::parse(&args.file, &bytes, &app.settings, runner(app));
    show_findings(app, &parsed);
    let Some(playbook) = parsed.playbook else {
        return Ok(Exit::InvalidPlaybook);
    };
    // Without a file name, the path in the playbook is its name.
    let name = match args.file.as_str() {
        "-" => playbook.path.to_string(),
        file => file.to_owned(),
    };
    let begin = Begin::Text {
        name,
        text: playbook.source.text.to_string(),
        payload: payload.map(|payload| Raw::of(&payload)),
    };
    let runs = runs::fresh(app)?;
    follow(app, &*runs, (begin, playbook), args).await
}

/// Runs a registered playbook.
async fn catalogued(app: &App, args: &RunArgs, payload: Option<Map<String, Value>>) -> Ended {
    let nowhere = || {
        let message = format!("playbook `{}` not found", args.file);
        Problem::new(Exit::NotFound, "FILE_NOT_FOUND", message)
            .help("no file and no registered playbook has this name; list registered playbooks with `noetl catalog list`")
    };
    // A lookup must not create a store.
    let runs = match runs::existing(app) {
        Err(problem) if problem.code == "STORE_NOT_FOUND" => return Err(nowhere()),
        runs => runs?,
    };
    let (path, version) = model::playbook::entry_named(&args.file);
    let entry = runs.find(path, version).await?.ok_or_else(nowhere)?;
    let text = entry.content.unwrap_or_default();
    let parsed = added::parse(&entry.path, text.as_bytes(), &app.settings, runner(app));
    show_findings(app, &parsed);
    let Some(playbook) = parsed.playbook else {
        return Ok(Exit::InvalidPlaybook);
    };
    let begin = Begin::Catalog {
        path: entry.path,
        version: Some(entry.version),
        payload: payload.map(|payload| Raw::of(&payload)),
    };
    follow(app, &*runs, (begin, playbook), args).await
}

/// Returns where a playbook started by this command runs.
fn runner(app: &App) -> Runner {
    match app.settings.remote() {
        Some(_) => Runner::Elsewhere,
        None => Runner::Here,
    }
}

async fn follow(
    app: &App,
    runs: &dyn Runs,
    (begin, playbook): (Begin, Playbook),
    args: &RunArgs,
) -> Ended {
    let driven = runs.begin(begin, &args.driving).await?;
    if args.driving.detach {
        return detach(app, driven).await;
    }
    let subject = drive::subject(
        runs,
        driven.id(),
        (playbook.name.to_string(), Some(playbook)),
    );
    let follow = Follow {
        app,
        runs,
        driven,
        subject,
    };
    follow.until_settled(&args.driving).await
}

/// Prints errors in full, but only the number of warnings; `validate` prints those.
fn show_findings(app: &App, parsed: &Parsed) {
    let out = &app.out;
    if parsed.has_errors() {
        for diagnostic in &parsed.diagnostics {
            out.complain(&diagnostic.render(out.stderr.diagnostics()));
        }
        if out.is_machine() {
            out.json(&json!({ "status": "INVALID", "diagnostics": parsed.diagnostics }));
        }
        return;
    }
    let warnings = parsed.diagnostics.iter();
    let warnings = warnings.filter(|found| found.is_warning()).count();
    if warnings > 0 {
        let count = crate::render::human::counted(warnings, "warning");
        out.note(
            &out.stderr
                .warn(&format!("{count}; run `noetl validate` for details")),
        );
    }
}

async fn detach(app: &App, driven: Box<dyn runs::Driven + '_>) -> Ended {
    let (id, elsewhere) = (driven.id(), driven.elsewhere());
    driven.leave().await?;
    if app.out.is_machine() {
        app.out.json(
            &json!({ "execution_id": id, "status": "RUNNING", "result": null, "error": null }),
        );
    } else {
        app.out.data(&id.to_string());
        app.out
            .note(&format!("running {elsewhere}   noetl events {id} -f"));
    }
    Ok(Exit::Done)
}
