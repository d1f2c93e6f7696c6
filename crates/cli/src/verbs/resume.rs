//! `noetl resume`: resumes a paused or interrupted run.

use model::status::RunStatus;
use store::{ExecutionRow, Filter};

use crate::app::{App, Ended};
use crate::args::ResumeArgs;
use crate::drive;
use crate::find;
use crate::problem::{Exit, Problem};
use crate::runs::{self, Begin, Runs};

/// Resumes a run and follows it.
pub(crate) async fn resume(app: &App, args: &ResumeArgs) -> Ended {
    if args.background {
        // In its own session, the process survives the end of the terminal. Fails harmlessly if it already leads one.
        let _ = rustix::process::setsid();
    }
    let runs = runs::existing(app)?;
    let row = match &args.id {
        Some(id) => find::run(&*runs, id).await?,
        None => unfinished(&*runs).await?,
    };
    if row.status.is_terminal() {
        let status = row.status.name().to_ascii_lowercase();
        let problem = Problem::new(
            Exit::NotAllowed,
            "RUN_ENDED",
            format!("run {} has already finished ({status})", row.id),
        );
        return Err(match row.status {
            RunStatus::Completed => {
                problem.help(format!("print its result with `noetl result {}`", row.id))
            }
            _ => problem.help(format!(
                "retry its failed steps with `noetl retry {}`",
                row.id
            )),
        });
    }
    drive::begin(app, &*runs, Begin::Resume(row), &args.driving).await
}

/// Returns the latest unfinished run.
async fn unfinished(runs: &dyn Runs) -> Result<ExecutionRow, Problem> {
    let mut found: Vec<ExecutionRow> = Vec::new();
    for status in [RunStatus::Paused, RunStatus::Running] {
        let filter = Filter {
            status: Some(status),
            limit: 50,
            ..Filter::default()
        };
        let rows = runs.list(&filter).await?;
        found.extend(rows.into_iter().find(|row| row.parent.is_none()));
    }
    found.into_iter().max_by_key(|row| row.id).ok_or_else(|| {
        Problem::new(Exit::NotFound, "RUN_NOT_FOUND", "no unfinished runs found")
            .help("retry the failed steps of a finished run with `noetl retry ID`")
    })
}
