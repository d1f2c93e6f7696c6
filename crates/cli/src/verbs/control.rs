//! `noetl cancel`, `pause` and `signal`: a word to a run, wherever it is driven.

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

/// Longer than workers have to stop their tasks.
const STOP_PATIENCE: Duration = Duration::from_secs(12);
/// Long enough for another process to take up a message.
const WORD_PATIENCE: Duration = Duration::from_secs(3);

/// Stops a run for good.
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

/// Stops a run for a while.
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
    say(app, &args.id, control, None, "signalled").await
}

/// Says a word to a run, and waits until it stands as wanted where that is soon.
async fn say(app: &App, id: &str, control: Control, wanted: Option<Wanted>, done: &str) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, id).await?;
    let status = runs.say(&row, control, wanted).await?;
    let word = match wanted {
        Some(wanted) if wanted.status != status && !status.is_terminal() => "asked",
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
