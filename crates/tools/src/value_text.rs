//! Text of JSON values.

use serde_json::Value;

/// Text of a value: strings as they are, other types as JSON.
pub fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Like [`plain_text`], but empty for null.
pub(crate) fn text_or_empty(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        plain_text(value)
    }
}
