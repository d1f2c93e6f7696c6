//! Objects in buckets, with the result fields of `artifact`.

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Value, json};

use crate::call::Call;
use crate::objects::{ObjectAccess, ObjectLocation, run_action};

/// Runs the action of the task on an object.
pub(super) async fn run_object_action(
    call: &Call,
    action: &str,
    location: &ObjectLocation,
    access: &ObjectAccess,
) -> Result<Outcome, TaskError> {
    if !matches!(action, "get" | "put" | "list" | "delete") {
        return Err(unknown_action_error(action));
    }
    if call.field("slice").is_some() || call.field("compress").is_some() {
        let message = "`slice` and `compress` are only supported for stored results, not for objects";
        return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
    }
    let mut outcome = run_action(call, action, location, access).await?;
    if let Outcome::Ok(success) = &mut outcome
        && let Value::Object(map) = &mut success.result
    {
        if let Some(size) = map.get("size").cloned() {
            map.insert("size_bytes".to_owned(), size);
        }
        if let Some(objects) = map.remove("objects") {
            map.insert("data".to_owned(), objects);
        }
    }
    Ok(outcome)
}

/// Error of an unknown action.
pub fn unknown_action_error(action: &str) -> TaskError {
    let message = format!("invalid `action: {action}`; use get, put, list or delete");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "action")
}

/// Result of a read: JSON as a value, text, or base64.
pub fn bytes_to_value(uri: &str, bytes: &[u8]) -> Value {
    use base64::Engine;
    let json = || serde_json::from_slice::<Value>(bytes).ok();
    let text = || std::str::from_utf8(bytes).ok().map(Value::from);
    let mut result = json!({"uri": uri, "size_bytes": bytes.len()});
    result["data"] = json().or_else(text).unwrap_or_else(|| {
        result["encoding"] = "base64".into();
        base64::engine::general_purpose::STANDARD.encode(bytes).into()
    });
    result
}
