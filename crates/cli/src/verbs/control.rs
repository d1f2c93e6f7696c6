//! `noetl cancel`, `pause` and `signal`: send a control request to a run.

use std::time::Duration;

use engine::ControlRequest;
use model::event::StopRequest;
use model::id::Name;
use model::raw::RawJson;
use model::status::RunStatus;
use serde_json::json;

use crate::app::{App, VerbResult};
use crate::args::{CancelArgs, PauseArgs, SignalArgs};
use crate::cli_error::Exit;
use crate::find;
use crate::inputs;
use crate::runs::{self, StatusWait};

/// How long to wait for a cancelled run to end; longer than workers may take to stop their tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);
/// How long to wait until another process has applied the request.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(3);

/// Cancels a run.
pub(crate) async fn cancel(app: &App, args: &CancelArgs) -> VerbResult {
    let control = ControlRequest::Cancel(StopRequest {
        reason: args.reason.clone(),
        cascade: !args.no_cascade,
        ending: None,
    });
    let target = StatusWait {
        status: RunStatus::Cancelled,
        timeout: STOP_TIMEOUT,
    };
    send_control(app, &args.id, control, Some(target), "cancelled").await
}

/// Pauses a run.
pub(crate) async fn pause(app: &App, args: &PauseArgs) -> VerbResult {
    let control = ControlRequest::Pause {
        reason: args.reason.clone(),
    };
    let target = StatusWait {
        status: RunStatus::Paused,
        timeout: CONTROL_TIMEOUT,
    };
    send_control(app, &args.id, control, Some(target), "paused").await
}

/// Sends a signal.
pub(crate) async fn signal(app: &App, args: &SignalArgs) -> VerbResult {
    let payload = inputs::read_inputs(&args.values)?;
    let control = ControlRequest::Signal {
        name: Name::from(args.name.as_str()),
        payload: payload.map(|payload| RawJson::from_serializable(&payload)),
    };
    send_control(app, &args.id, control, None, "signaled").await
}

/// Sends a control request to a run and waits for the wanted status, up to its timeout.
async fn send_control(
    app: &App,
    id: &str,
    request: ControlRequest,
    wait: Option<StatusWait>,
    done: &str,
) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, id).await?;
    let status = backend.control(&row, request, wait).await?;
    let verb_text = match wait {
        Some(target) if target.status != status && !status.is_terminal() => "request sent",
        _ => done,
    };
    if app.output.is_machine() {
        app.output
            .print_json(&json!({ "execution_id": row.id, "status": status }));
    } else {
        let mark = app.output.stderr.tick();
        app.output
            .info(&format!("{mark} {} {verb_text}   run {}", row.name, row.id));
    }
    Ok(Exit::Done)
}
