//! The credential of a call: a map with its `type` beside its data. Errors name what is missing, never what is there.

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};

use crate::call::Call;

/// The credential of a call, if it has one.
pub(crate) fn auth(call: &Call) -> Result<Option<&Map<String, Value>>, TaskError> {
    match call.field("auth") {
        None => Ok(None),
        Some(Value::Object(auth)) => Ok(Some(auth)),
        Some(Value::String(name)) => {
            let message = format!("the credential `{name}` was not resolved before the call");
            Err(TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message))
        }
        Some(other) => Err(call.wrong_type("auth", "a map {type, …}", other)),
    }
}

/// The first of these fields that is there, as text.
pub(crate) fn text(auth: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match auth.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// The first of these fields, of which one must be there.
pub(crate) fn need(auth: &Map<String, Value>, keys: &[&str]) -> Result<String, TaskError> {
    text(auth, keys).ok_or_else(|| invalid(format!("`auth` has no `{}`", keys[0])))
}

/// The error of a credential that cannot be used.
pub(crate) fn invalid(message: impl Into<String>) -> TaskError {
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
