//! Removes user names and passwords from URLs in errors of tasks.

use model::outcome::TaskError;
use model::userinfo::without_userinfo;
use serde_json::Value;

/// Removes the userinfo of every URL in an error.
pub(crate) fn strip_userinfo(error: &mut TaskError) {
    strip_text(&mut error.message);
    error.details.values_mut().for_each(strip_value);
}

/// Removes the userinfo of every URL in a value.
pub(crate) fn strip_value(value: &mut Value) {
    match value {
        Value::String(text) => strip_text(text),
        Value::Array(items) => items.iter_mut().for_each(strip_value),
        Value::Object(map) => map.values_mut().for_each(strip_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn strip_text(text: &mut String) {
    if let Some(stripped) = without_userinfo(text) {
        *text = stripped;
    }
}
