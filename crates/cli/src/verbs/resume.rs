//! `noetl resume`: resumes a paused or interrupted run.

use model::status::RunStatus;
use store::{ExecutionFilter, ExecutionRow};

use crate::app::{App, VerbResult};
use crate::args::ResumeArgs;
use crate::cli_error::{CliError, Exit};
use crate::find;
use crate::follow;
use crate::runs::{self, RunBackend, StartRequest};

/// Resumes a run and follows it.
pub(crate) async fn resume(app: &App, args: &ResumeArgs) -> VerbResult {
    if args.background {
        // In its own session, the process survives the end of the terminal. Fails harmlessly if it already leads one.
        let _ = rustix::process::setsid();
    }
    let backend = runs::open_existing(app)?;
    let row = match &args.id {
        Some(id) => find::find_run(&*backend, id).await?,
        None => find_unfinished(&*backend).await?,
    };
    if row.status.is_terminal() {
        let status = row.status.name().to_ascii_lowercase();
        let problem = CliError::new(
            Exit::NotAllowed,
            "RUN_ENDED",
            format!("run {} has already finished ({status})", row.id),
        );
        return Err(match row.status {
            RunStatus::Completed => problem.help(format!("print its result with `noetl result {}`", row.id)),
            _ => problem.help(format!("retry its failed steps with `noetl retry {}`", row.id)),
        });
    }
    follow::start_and_follow(app, &*backend, StartRequest::Resume(row), &args.drive_args).await
}

/// Returns the latest unfinished run.
async fn find_unfinished(backend: &dyn RunBackend) -> Result<ExecutionRow, CliError> {
    let mut unfinished: Vec<ExecutionRow> = Vec::new();
    for status in [RunStatus::Paused, RunStatus::Running] {
        let filter = ExecutionFilter {
            statuses: vec![status],
            limit: 50,
            ..ExecutionFilter::default()
        };
        let mut rows = backend.list_runs(&filter).await?.into_iter().map(|run| run.row);
        unfinished.extend(rows.find(|row| row.parent.is_none()));
    }
    unfinished.into_iter().max_by_key(|row| row.id).ok_or_else(|| {
        CliError::new(Exit::NotFound, "RUN_NOT_FOUND", "no unfinished runs found")
            .help("retry the failed steps of a finished run with `noetl retry ID`")
    })
}
