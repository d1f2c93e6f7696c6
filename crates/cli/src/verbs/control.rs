//! `noetl cancel`, `pause` and `signal`: a word to a run, wherever it is driven.

use std::time::Duration;

use model::id::{ExecutionId, Name};
use model::raw::Raw;
use model::status::RunStatus;
use serde_json::json;
use server::Control;

use crate::app::{App, Ended};
use crate::args::{CancelArgs, PauseArgs, SignalArgs};
use crate::find;
use crate::inputs;
use crate::local::{self, Session};
use crate::problem::{Exit, Problem};

/// Longer than workers have to stop their tasks.
const STOP_PATIENCE: Duration = Duration::from_secs(12);
/// Long enough for another process to take up a message.
const WORD_PATIENCE: Duration = Duration::from_secs(3);

/// Stops a run for good.
pub(crate) async fn cancel(app: &App, args: &CancelArgs) -> Ended {
    let control = Control::Cancel {
        reason: args.reason.clone(),
        cascade: true,
    };
    let wanted = (RunStatus::Cancelled, STOP_PATIENCE);
    say(app, &args.id, control, Some(wanted), "cancelled").await
}

/// Stops a run for a while.
pub(crate) async fn pause(app: &App, args: &PauseArgs) -> Ended {
    let control = Control::Pause {
        reason: args.reason.clone(),
    };
    let wanted = (RunStatus::Paused, WORD_PATIENCE);
    say(app, &args.id, control, Some(wanted), "paused").await
}

/// Sends a signal.
pub(crate) async fn signal(app: &App, args: &SignalArgs) -> Ended {
    let payload = inputs::read(&args.values)?;
    let control = Control::Signal {
        name: Name::from(args.name.as_str()),
        payload: payload.map(|payload| Raw::of(&payload)),
    };
    say(app, &args.id, control, None, "signalled").await
}

/// Says a word to a run, and waits until it stands as wanted where that is soon.
async fn say(
    app: &App,
    id: &str,
    control: Control,
    wanted: Option<(RunStatus, Duration)>,
    done: &str,
) -> Ended {
    let log = local::existing(&app.settings)?;
    let row = find::run(&*log.store, id).await?;
    let session = Session::start(log)?;
    session
        .server
        .control(row.id, control)
        .await
        .map_err(|error| {
            let mut problem = Problem::from(error);
            problem.message = format!("run {}: {}", row.id, problem.message);
            problem
        })?;
    let status = match wanted {
        Some((status, patience)) => settled(&session, row.id, status, patience).await?,
        None => row.status,
    };
    let word = match wanted {
        Some((wanted, _)) if wanted != status && !status.is_terminal() => "asked",
        _ => done,
    };
    if app.out.is_machine() {
        app.out
            .json(&json!({ "execution_id": row.id, "status": status }));
    } else {
        let mark = app.out.stderr.tick();
        app.out
            .note(&format!("{mark} {} {word}   run {}", row.name, row.id));
    }
    session.stop().await;
    Ok(Exit::Done)
}

/// How the run stands once it stands as wanted, has ended, or patience is at an end.
async fn settled(
    session: &Session,
    id: ExecutionId,
    wanted: RunStatus,
    patience: Duration,
) -> Result<RunStatus, Problem> {
    let store = &session.log.store;
    let status = async || -> Result<RunStatus, Problem> {
        let row = store.execution(id).await?;
        Ok(row.map_or(RunStatus::Running, |row| row.status))
    };
    let reached = async {
        let mut published = session.server.watch();
        loop {
            let now = status().await?;
            if now == wanted || now.is_terminal() {
                return Ok(now);
            }
            tokio::select! {
                _ = published.recv() => {}
                () = store.changed() => {}
            }
        }
    };
    match tokio::time::timeout(patience, reached).await {
        Ok(reached) => reached,
        Err(_) => status().await,
    }
}
