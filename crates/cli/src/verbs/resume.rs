//! `noetl resume`: goes on after a pause or a crash.

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
        // The terminal may go away; a session of its own outlives it. A leader of one stays what it is.
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
            format!("run {} has ended: {status}", row.id),
        );
        return Err(match row.status {
            RunStatus::Completed => problem.help(format!("its result: `noetl result {}`", row.id)),
            _ => problem.help(format!("redo its failed work: `noetl retry {}`", row.id)),
        });
    }
    drive::begin(app, &*runs, Begin::Resume(row), &args.driving).await
}

/// The latest run that has not ended.
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
        Problem::new(Exit::NotFound, "RUN_NOT_FOUND", "every run has ended")
            .help("`noetl retry ID` redoes the failed work of one that has")
    })
}
