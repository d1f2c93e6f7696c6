//! Credential of a call: a map with `type` and its data. Errors name the missing field and never include a value.

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};

use crate::call::Call;

/// Credential of a call, if it has one.
pub fn call_auth(call: &Call) -> Result<Option<&Map<String, Value>>, TaskError> {
    match call.field("auth") {
        None => Ok(None),
        Some(Value::Object(auth)) => Ok(Some(auth)),
        Some(Value::String(name)) => Err(unresolved_auth_error(name)),
        Some(other) => Err(call.wrong_type_error("auth", "a map {type, …}", other)),
    }
}

/// First of these fields that is set, as text.
pub fn auth_text(auth: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match auth.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Like [`auth_text`], but an error if none of the fields is set.
pub(crate) fn require_auth_text(auth: &Map<String, Value>, keys: &[&str]) -> Result<String, TaskError> {
    auth_text(auth, keys).ok_or_else(|| invalid_auth_error(format!("`auth.{}` is required", keys[0])))
}

/// Error for a credential that is named but not available.
pub fn unresolved_auth_error(name: &str) -> TaskError {
    let message = format!(
        "credential `{name}` is not available to this task; create it with `noetl secret set {name}`, or list it in the \
         `keychain` of the playbook"
    );
    TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message)
}

/// Error for an invalid credential.
pub fn invalid_auth_error(message: impl Into<String>) -> TaskError {
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
