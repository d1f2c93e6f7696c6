//! Objects in buckets, as `artifact` shows them.

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Value, json};

use crate::call::Call;
use crate::objects::{Place, Reach, act};

/// Does with an object what the task asks for, with the words of `artifact`.
pub(super) async fn object(
    call: &Call,
    action: &str,
    place: &Place,
    reach: &Reach,
) -> Result<Outcome, TaskError> {
    if !matches!(action, "get" | "put" | "list" | "delete") {
        return Err(unknown(action));
    }
    if call.field("slice").is_some() || call.field("compress").is_some() {
        let message =
            "`slice` and `compress` are for results; an object is read and written as it is";
        return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
    }
    let mut outcome = act(call, action, place, reach).await?;
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

/// The error of an action that there is not.
pub(super) fn unknown(action: &str) -> TaskError {
    let message = format!("`action` is `{action}`, not one of get, put, list, delete");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "action")
}

/// What was read, as a result: JSON as its value, text, or base64.
pub(super) fn held(uri: &str, bytes: &[u8]) -> Value {
    use base64::Engine;
    let json = || serde_json::from_slice::<Value>(bytes).ok();
    let text = || std::str::from_utf8(bytes).ok().map(Value::from);
    let mut result = json!({"uri": uri, "size_bytes": bytes.len()});
    result["data"] = json().or_else(text).unwrap_or_else(|| {
        result["encoding"] = "base64".into();
        base64::engine::general_purpose::STANDARD
            .encode(bytes)
            .into()
    });
    result
}
