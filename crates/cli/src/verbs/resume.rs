//! `noetl resume`: goes on after a pause or a crash.

use model::status::RunStatus;
use server::{Control, ControlError};
use store::{Adoption, ExecutionRow, Filter, Store};

use crate::app::{App, Ended};
use crate::args::{Driving, ResumeArgs};
use crate::drive::{self, Follow};
use crate::find;
use crate::local::{self, Session};
use crate::problem::{Exit, Problem};

/// Resumes a run and follows it.
pub(crate) async fn resume(app: &App, args: &ResumeArgs) -> Ended {
    if args.background {
        // The terminal may go away; a session of its own outlives it. A leader of one stays what it is.
        let _ = rustix::process::setsid();
    }
    let log = local::existing(&app.settings)?;
    let row = match &args.id {
        Some(id) => find::run(&*log.store, id).await?,
        None => unfinished(&*log.store).await?,
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
    let session = Session::start(log)?;
    go_on(app, session, row, Going::Resume, &args.driving).await
}

/// How a run that stands still is set going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Going {
    /// After a pause, or after its process died.
    Resume,
    /// After it failed or was cancelled.
    Retry,
}

/// Sets a run going, here or in the process that drives it, and follows it.
pub(crate) async fn go_on(
    app: &App,
    mut session: Session,
    row: ExecutionRow,
    going: Going,
    driving: &Driving,
) -> Ended {
    let since = session.log.store.now();
    let adoption = session.server.adopt(row.id).await?;
    let control = match going {
        Going::Retry => Some(Control::Retry { version: None }),
        Going::Resume if row.status == RunStatus::Paused => Some(Control::Resume),
        Going::Resume => None,
    };
    if let Some(control) = control {
        match session.server.control(row.id, control).await {
            Ok(()) => {}
            Err(ControlError::Refused(refusal)) => return Err(refused(&row, refusal)),
            Err(error) => return Err(error.into()),
        }
    }
    if driving.detach {
        session.stop().await;
        if adoption == Adoption::Mine {
            drive::background(app, row.id, driving)?;
        }
        app.out.data(&row.id.to_string());
        return Ok(Exit::Done);
    }
    if adoption == Adoption::Mine {
        session.work(app, driving)?;
    }
    let subject = drive::subject(app, &session, &row).await?;
    let follow = Follow {
        app,
        session,
        id: row.id,
        subject,
        since,
        adoption,
    };
    follow.until_settled(driving).await
}

fn refused(row: &ExecutionRow, refusal: engine::Refusal) -> Problem {
    let status = row.status.name().to_ascii_lowercase();
    Problem::new(
        Exit::NotAllowed,
        "REFUSED",
        format!("run {}: {refusal}", row.id),
    )
    .help(format!("it is {status}: look at `noetl show {}`", row.id))
}

/// The latest run that has not ended.
async fn unfinished(store: &dyn Store) -> Result<ExecutionRow, Problem> {
    let mut found: Vec<ExecutionRow> = Vec::new();
    for status in [RunStatus::Paused, RunStatus::Running] {
        let filter = Filter {
            status: Some(status),
            limit: 50,
            ..Filter::default()
        };
        let rows = store.executions(&filter).await?;
        found.extend(rows.into_iter().find(|row| row.parent.is_none()));
    }
    found.into_iter().max_by_key(|row| row.id).ok_or_else(|| {
        Problem::new(Exit::NotFound, "RUN_NOT_FOUND", "every run has ended")
            .help("`noetl retry ID` redoes the failed work of one that has")
    })
}
