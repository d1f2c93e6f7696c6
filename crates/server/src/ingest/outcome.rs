//! Outcomes in events from clients: complete outcomes, results of older clients, and errors in all supported forms.

use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use serde_json::{Map, Value, json};
use wire::{ResultKind, WireEvent};

/// Whether the payload has the form of the log's own event.
pub(super) fn is_native_payload(wire: &WireEvent) -> bool {
    let payload = payload_fields(wire);
    let has_outcome = payload.get("outcome").is_some_and(is_outcome);
    has_outcome && (payload.contains_key("do") || wire.event_type.starts_with("task.attempt."))
}

fn is_outcome(value: &Value) -> bool {
    serde_json::from_value::<Outcome>(value.clone()).is_ok()
}

/// Outcome of the task according to the client: an outcome, a result, or an error.
pub(super) fn reported_outcome(wire: &WireEvent, has_failed: bool) -> RawJson {
    if let Some(outcome) = payload_fields(wire).get("outcome").filter(|value| is_outcome(value)) {
        let is_error = outcome["status"] == "error";
        if is_error == has_failed {
            return RawJson::from_serializable(outcome);
        }
    }
    if has_failed {
        RawJson::from_serializable(&Outcome::error(reported_error(wire)))
    } else {
        RawJson::from_serializable(&Outcome::ok(stored_result(wire)))
    }
}

/// The result in an event: in its payload, or at the location that the event names. If the client sets `result_kind`,
/// the result is stored with its status.
fn stored_result(wire: &WireEvent) -> Value {
    let status = "COMPLETED";
    match wire.result_kind {
        Some(ResultKind::Ref) => json!({"status": status, "reference": {"uri": wire.result_uri}}),
        Some(ResultKind::Refs) => {
            json!({"status": status, "reference": {"event_ids": wire.event_ids}})
        }
        Some(ResultKind::Data) => {
            let context = wire.payload.as_ref().map_or(Value::Null, RawJson::to_value);
            json!({"status": status, "context": context})
        }
        None => {
            let mut payload = payload_fields(wire);
            for name in ["result", "data", "response"] {
                if let Some(result) = payload.remove(name) {
                    return result;
                }
            }
            Value::Object(payload)
        }
    }
}

/// The error in an event: its own, or that of the outcome in it.
pub(super) fn reported_error(wire: &WireEvent) -> TaskError {
    let payload = payload_fields(wire);
    let unnamed = || TaskError::new(ErrorKind::Unknown, "STEP_FAILED", "the worker reported a failure");
    let inner = |name: &str| payload.get(name).and_then(|inner| inner.get("error"));
    let error = payload.get("error").or_else(|| inner("outcome"));
    match error.or_else(|| inner("result")) {
        Some(Value::String(message)) => TaskError {
            message: message.clone(),
            ..unnamed()
        },
        Some(error @ Value::Object(_)) => serde_json::from_value(error.clone()).unwrap_or_else(|_| {
            let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
            let retryable = error.get("retryable").and_then(Value::as_bool);
            TaskError {
                code: text("code").unwrap_or_else(|| "STEP_FAILED".to_owned()),
                message: text("message").unwrap_or_else(|| error.to_string()),
                retryable: retryable.unwrap_or(false),
                ..unnamed()
            }
        }),
        _ => unnamed(),
    }
}

fn payload_fields(wire: &WireEvent) -> Map<String, Value> {
    match wire.payload.as_ref().map(RawJson::to_value) {
        Some(Value::Object(fields)) => fields,
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("result".to_owned(), other)]),
    }
}
