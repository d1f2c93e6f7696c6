//! Computes the outcome of a task that awaited an external event: a signal, a timer or the end of a child execution.

use model::event::{AwaitTarget, Event, EventBody, WaitFor};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use serde_json::json;

/// Returns the outcome that `event` gives to a task that awaited `awaits`.
pub fn awaited_outcome(awaits: &AwaitTarget, event: &Event) -> Outcome {
    match (&event.body, awaits) {
        (EventBody::SignalReceived(signal), AwaitTarget::Child(_)) => {
            let outcome = signal.payload.as_ref().map(RawJson::parse_as);
            outcome
                .and_then(Result::ok)
                .unwrap_or_else(|| Outcome::ok(serde_json::Value::Null))
        }
        (EventBody::SignalReceived(signal), AwaitTarget::Wait(_)) => {
            let payload = signal.payload.as_ref().map(RawJson::to_value).unwrap_or_default();
            Outcome::ok(payload)
        }
        (
            _,
            AwaitTarget::Wait(WaitFor {
                times_out: true,
                signal,
                ..
            }),
        ) => {
            let awaited = signal.as_ref().map_or("the wait", |name| name.as_str());
            let message = format!("timed out waiting for signal `{awaited}`");
            Outcome::error(TaskError::new(ErrorKind::Timeout, "WAIT_TIMEOUT", message))
        }
        _ => Outcome::ok(json!({"fired_at": event.timestamp})),
    }
}
