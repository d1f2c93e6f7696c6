//! One-line previews of values: `{greeting: "Hello, Ada"}`, `10 rows`.

use model::raw::RawJson;
use model::result_ref::ResultRef;
use serde_json::Value;

use crate::render::human;

/// Returns the result or error of a task in at most `chars` characters.
pub(crate) fn preview_outcome(outcome: &RawJson, body: Option<&ResultRef>, chars: usize) -> String {
    if let Some(body) = body {
        return human::truncate(&format!("{} stored", human::format_size(body.meta.bytes)), chars);
    }
    let outcome = outcome.to_value();
    match &outcome["error"]["message"] {
        Value::String(message) => human::truncate(&human::escape_controls(message).replace('\n', " "), chars),
        _ => preview_value(&outcome["result"], chars),
    }
}

/// Returns a value in at most `chars` characters; empty for null.
pub(crate) fn preview_value(value: &Value, chars: usize) -> String {
    if value.is_null() {
        return String::new();
    }
    if let Some(rows) = value.get("row_count").and_then(Value::as_u64) {
        return human::format_counted(usize::try_from(rows).unwrap_or(usize::MAX), "row");
    }
    let mut text = String::new();
    write_preview(value, chars, &mut text);
    human::truncate(&human::escape_controls(&text).replace('\n', " "), chars)
}

/// Writes a value; stops when the text is longer than what is shown.
fn write_preview(value: &Value, chars: usize, out: &mut String) {
    if out.len() > chars * 4 {
        return;
    }
    match value {
        Value::Object(map) => {
            out.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(key);
                out.push_str(": ");
                write_preview(value, chars, out);
                if out.len() > chars * 4 {
                    return;
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_preview(item, chars, out);
                if out.len() > chars * 4 {
                    return;
                }
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::outcome::Outcome;
    use serde_json::json;

    #[test]
    fn maps_are_shown_as_flow_yaml() {
        let preview = preview_value(&json!({"greeting": "Hello, Ada", "n": [1, 2]}), 60);
        assert_eq!(preview, r#"{greeting: "Hello, Ada", n: [1, 2]}"#);
    }

    #[test]
    fn tables_are_counted_and_nulls_are_silent() {
        assert_eq!(preview_value(&json!({"rows": [], "row_count": 10}), 60), "10 rows");
        assert_eq!(preview_value(&json!(null), 60), "");
    }

    #[test]
    fn long_values_are_cut_to_the_width_of_the_terminal() {
        let long = json!({"text": "x".repeat(10_000), "more": [1, 2, 3]});
        let preview = preview_value(&long, 20);
        assert_eq!(preview.chars().count(), 20);
        assert!(preview.ends_with('…'));
    }

    #[test]
    fn a_failed_outcome_shows_its_message() {
        let error = crate::view::testing::task_error("BROKEN", "a");
        let raw = RawJson::from_serializable(&Outcome::error(error));
        assert_eq!(preview_outcome(&raw, None, 40), "BROKEN happened");
    }
}
