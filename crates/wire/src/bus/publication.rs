//! An event as it is published: references and extracted fields, never bodies.

use model::event::Event;
use model::id::{EventId, ExecutionId};
use serde_json::{Map, Value};

/// An event to publish.
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// Stored name of the event type; the last part of the subject.
    pub event_type: &'static str,
    /// Execution of the event.
    pub execution_id: ExecutionId,
    /// Event ID, by which the stream detects duplicates.
    pub event_id: EventId,
    /// Event as JSON text.
    pub text: String,
}

/// Payload fields that contain user data.
const DATA_FIELDS: [&str; 11] = [
    "workload",
    "args",
    "args_from",
    "inputs",
    "input",
    "patch",
    "set",
    "set_ctx",
    "set_iter",
    "collection",
    "results",
];
/// Maximum number of scalars of one value that are published.
const FIELDS_MAX: usize = 32;
/// Longer strings are not published.
const TEXT_MAX: usize = 500;

/// Converts an event for publication.
pub fn to_publication(event: &Event) -> Publication {
    let mut json = event.to_json();
    if let Some(payload) = json.get_mut("payload") {
        trim_payload(payload);
    }
    Publication {
        event_type: event.kind().name(),
        execution_id: event.execution_id,
        event_id: event.event_id,
        text: json.to_string(),
    }
}

fn trim_payload(payload: &mut Value) {
    let Value::Object(fields) = payload else {
        return;
    };
    for (name, value) in fields.iter_mut() {
        if name == "outcome" {
            if let Some(result) = value.get_mut("result") {
                *result = extract_scalars(result);
            }
        } else if DATA_FIELDS.contains(&name.as_str()) || name == "payload" {
            *value = extract_scalars(value);
        }
    }
}

/// Returns the scalars at the top level of a value.
fn extract_scalars(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let scalars = fields.iter().filter(|(_, value)| is_small(value)).take(FIELDS_MAX);
            let scalars: Map<String, Value> = scalars.map(|(name, value)| (name.clone(), value.clone())).collect();
            Value::Object(scalars)
        }
        value if is_small(value) => value.clone(),
        _ => Value::Null,
    }
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().count() <= TEXT_MAX,
        Value::Array(_) | Value::Object(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_stay_behind_and_fields_go() {
        let mut payload = json!({
            "outcome": {"status": "ok", "result": {"n": 1, "rows": [1, 2], "text": "x".repeat(501)}},
            "set_ctx": {"a": 1, "deep": {"b": 2}},
            "collection": [1, 2, 3],
            "matched_rule_index": 0,
        });
        trim_payload(&mut payload);
        assert_eq!(
            payload,
            json!({
                "outcome": {"status": "ok", "result": {"n": 1}},
                "set_ctx": {"a": 1},
                "collection": null,
                "matched_rule_index": 0,
            })
        );
    }
}
