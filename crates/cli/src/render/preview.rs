//! One-line previews of values: `{greeting: "Hello, Ada"}`, `10 rows`.

use model::raw::Raw;
use model::result_ref::ResultRef;
use serde_json::Value;

use crate::render::human;

/// Returns the result or error of a task in at most `chars` characters.
pub(crate) fn outcome(outcome: &Raw, body: Option<&ResultRef>, chars: usize) -> String {
    if let Some(body) = body {
        return human::cut(&format!("{} stored", human::size(body.meta.bytes)), chars);
    }
    let outcome = outcome.value();
    match &outcome["error"]["message"] {
        Value::String(message) => human::cut(&human::tame(message).replace('\n', " "), chars),
        _ => value(&outcome["result"], chars),
    }
}

/// Returns a value in at most `chars` characters; empty for null.
pub(crate) fn value(value: &Value, chars: usize) -> String {
    if value.is_null() {
        return String::new();
    }
    if let Some(rows) = value.get("row_count").and_then(Value::as_u64) {
        return human::counted(usize::try_from(rows).unwrap_or(usize::MAX), "row");
    }
    let mut text = String::new();
    write(value, chars, &mut text);
    human::cut(&human::tame(&text).replace('\n', " "), chars)
}

/// Writes a value; stops when the text is longer than what is shown.
fn write(value: &Value, chars: usize, out: &mut String) {
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
                write(value, chars, out);
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
                write(item, chars, out);
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
        let shown = value(&json!({"greeting": "Hello, Ada", "n": [1, 2]}), 60);
        assert_eq!(shown, r#"{greeting: "Hello, Ada", n: [1, 2]}"#);
    }

    #[test]
    fn tables_are_counted_and_nulls_are_silent() {
        assert_eq!(value(&json!({"rows": [], "row_count": 10}), 60), "10 rows");
        assert_eq!(value(&json!(null), 60), "");
    }

    #[test]
    fn long_values_are_cut_to_the_room_there_is() {
        let long = json!({"text": "x".repeat(10_000), "more": [1, 2, 3]});
        let shown = value(&long, 20);
        assert_eq!(shown.chars().count(), 20);
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn a_failed_outcome_shows_its_message() {
        let error = crate::view::testing::error("BROKEN", "a");
        let raw = Raw::of(&Outcome::error(error));
        assert_eq!(outcome(&raw, None, 40), "BROKEN happened");
    }
}
