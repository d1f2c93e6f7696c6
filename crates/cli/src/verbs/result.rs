//! `noetl result`: what a run came to, or one of its steps.

use model::status::RunStatus;

use crate::app::{App, Ended};
use crate::args::ResultArgs;
use crate::find;
use crate::problem::{Exit, Problem};
use crate::render::value;
use crate::runs;
use crate::view::RunView;

/// Prints a result.
pub(crate) async fn result(app: &App, args: &ResultArgs) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, &args.id).await?;
    let view = find::view(&*runs, row.id).await?;
    let found = if let Some(name) = &args.step {
        let step = view.steps.iter().rev().find(|step| step.step == **name);
        let step = step.ok_or_else(|| not_run(name, &view))?;
        runs.step_result(row.id, step).await?
    } else {
        if let Some(problem) = unfinished(row.status, &row.id.to_string()) {
            return Err(problem);
        }
        runs.result(row.id, &view).await?
    };
    let part = match &args.path {
        Some(path) => value::at(&found, path)?,
        None => &found,
    };
    if app.out.is_machine() {
        app.out.json(part);
    } else {
        app.out.data(&value::plain(part));
    }
    Ok(Exit::Done)
}

fn not_run(name: &str, view: &RunView) -> Problem {
    let mut known: Vec<&str> = view.steps.iter().map(|step| step.step.as_str()).collect();
    known.dedup();
    let message = format!("step `{name}` has not run");
    Problem::new(Exit::NotFound, "STEP_NOT_FOUND", message)
        .help(format!("these have: {}", known.join(", ")))
}

/// Why a run has no result, if it has none.
fn unfinished(status: RunStatus, id: &str) -> Option<Problem> {
    let (exit, says) = match status {
        RunStatus::Completed => return None,
        RunStatus::Failed => (Exit::RunFailed, "failed"),
        RunStatus::Cancelled => (Exit::Cancelled, "was cancelled"),
        RunStatus::Paused => (Exit::Paused, "is paused"),
        RunStatus::Running => (Exit::NotFound, "has not ended"),
    };
    let problem = Problem::new(
        exit,
        "NO_RESULT",
        format!("run {id} {says} and has no result"),
    );
    Some(problem.help(format!(
        "look at `noetl show {id}`, or name a step that has ended"
    )))
}
