//! `noetl run`: a playbook from a file to its result.

use model::id::ExecutionId;
use model::playbook::Parsed;
use model::raw::Raw;
use model::time::Time;
use serde_json::json;
use server::{Submission, SubmitError};
use store::Adoption;

use crate::app::{App, Ended};
use crate::args::RunArgs;
use crate::drive::{self, Follow};
use crate::inputs;
use crate::local::{self, Session};
use crate::problem::{Exit, Problem};
use crate::progress::Subject;

/// Runs a playbook.
pub(crate) async fn run(app: &App, args: &RunArgs) -> Ended {
    if args.file == "-" && args.values.input.as_deref() == Some("-") {
        return Err(Problem::usage(
            "the playbook and --input cannot both be standard input",
        ));
    }
    let payload = inputs::read(&args.values)?;
    let bytes = inputs::bytes(&args.file)?;
    let parsed = model::playbook::parse(&args.file, &bytes);
    show_findings(app, &parsed);
    let Some(playbook) = parsed.playbook else {
        return Ok(Exit::InvalidPlaybook);
    };
    let log = local::open(&app.settings.store)?;
    let mut session = Session::start(log)?;
    // A text without a file is known by the path it gives itself.
    let name = match args.file.as_str() {
        "-" => playbook.path.to_string(),
        file => file.to_owned(),
    };
    let submission = Submission {
        name,
        text: playbook.source.text.to_string(),
        payload: payload.map(|payload| Raw::of(&payload)),
    };
    let id = session.server.submit(submission).await.map_err(refused)?;
    if args.driving.detach {
        session.stop().await;
        return detach(app, id, args);
    }
    session.work(app, &args.driving)?;
    let subject = Subject {
        name: playbook.name.to_string(),
        id: id.to_string(),
        place: drive::place(app),
        playbook: Some(playbook),
    };
    let follow = Follow {
        app,
        session,
        id,
        subject,
        since: Time::default(),
        adoption: Adoption::Mine,
    };
    follow.until_settled(&args.driving).await
}

/// Errors in full; of warnings only the number, for `validate` tells them.
fn show_findings(app: &App, parsed: &Parsed) {
    let out = &app.out;
    if parsed.has_errors() {
        for diagnostic in &parsed.diagnostics {
            out.complain(&diagnostic.render(out.stderr.diagnostics()));
        }
        if out.is_machine() {
            out.json(&json!({ "status": "INVALID", "diagnostics": parsed.diagnostics }));
        }
    } else if !parsed.diagnostics.is_empty() {
        let count = crate::render::human::counted(parsed.diagnostics.len(), "warning");
        out.note(
            &out.stderr
                .warn(&format!("{count}; `noetl validate` shows them")),
        );
    }
}

fn refused(error: SubmitError) -> Problem {
    match error {
        SubmitError::Failed(error) => error.into(),
        SubmitError::NoPlaybook(_) => {
            Problem::new(Exit::NotFound, "PLAYBOOK_NOT_FOUND", error.to_string())
        }
        SubmitError::Refused(refusal) => Problem::new(Exit::Usage, "REFUSED", refusal.to_string()),
        SubmitError::Invalid(diagnostics) => {
            let first = diagnostics
                .first()
                .map_or("", |found| found.message.as_str());
            Problem::new(Exit::InvalidPlaybook, "PLAYBOOK_INVALID", first)
        }
    }
}

fn detach(app: &App, id: ExecutionId, args: &RunArgs) -> Ended {
    drive::background(app, id, &args.driving)?;
    if app.out.is_machine() {
        app.out.json(
            &json!({ "execution_id": id, "status": "RUNNING", "result": null, "error": null }),
        );
    } else {
        app.out.data(&id.to_string());
        app.out
            .note(&format!("goes on in the background   noetl show {id}"));
    }
    Ok(Exit::Done)
}
