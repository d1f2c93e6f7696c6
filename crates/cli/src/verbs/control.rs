//! `noetl cancel`, `pause` and `signal`: send a control request to a run.

use std::time::Duration;

use model::id::Name;
use model::raw::Raw;
use model::status::RunStatus;
use serde_json::json;
use server::Control;

use crate::app::{App, Ended};
use crate::args::{CancelArgs, PauseArgs, SignalArgs};
use crate::find;
use crate::inputs;
use crate::problem::Exit;
use crate::runs::{self, Wanted};

/// How long to wait for a cancelled run to end; longer than workers may take to stop their tasks.
const STOP_PATIENCE: Duration = Duration::from_secs(12);
/// How long to wait until another process has applied the request.
const WORD_PATIENCE: Duration = Duration::from_secs(3);

/// Cancels a run.
pub(crate) async fn cancel(app: &App, args: &CancelArgs) -> Ended {
    let control = Control::Cancel {
        reason: args.reason.clone(),
        cascade: !args.no_cascade,
    };
    let wanted = Wanted {
        status: RunStatus::Cancelled,
        patience: STOP_PATIENCE,
    };
    say(app, &args.id, control, Some(wanted), "cancelled").await
}

/// Pauses a run.
pub(crate) async fn pause(app: &App, args: &PauseArgs) -> Ended {
    let control = Control::Pause {
        reason: args.reason.clone(),
    };
    let wanted = Wanted {
        status: RunStatus::Paused,
        patience: WORD_PATIENCE,
    };
    say(app, &args.id, control, Some(wanted), "paused").await
}

/// Sends a signal.
pub(crate) async fn signal(app: &App, args: &SignalArgs) -> Ended {
    let payload = inputs::read(&args.values)?;
    let control = Control::Signal {
        name: Name::from(args.name.as_str()),
        payload: payload.map(|payload| Raw::of(&payload)),
    };
    say(app, &args.id, control, None, "signaled").await
}

/// Sends a control request to a run and waits for the wanted status, up to its timeout.
async fn say(app: &App, id: &str, control: Control, wanted: Option<Wanted>, done: &str) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, id).await?;
    let status = runs.say(&row, control, wanted).await?;
    let word = match wanted {
        Some(wanted) if wanted.status != status && !status.is_terminal() => "request sent",
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
    Ok(Exit::Done)
}
