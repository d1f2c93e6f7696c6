//! The canonical form of a state: JSON, and the checksum of its text.

use engine::ExecutionState;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Converts a state to JSON; `None` if it cannot be encoded.
pub(crate) fn state_to_json(state: &ExecutionState) -> Option<Value> {
    ciborium::Value::serialized(state).ok().map(to_json)
}

/// SHA-256 of the text of a JSON value.
pub(crate) fn json_checksum(value: &Value) -> String {
    hex::encode(Sha256::digest(value.to_string().as_bytes()))
}

/// Converts a value to JSON: keys that are not text become text, bytes become hex.
fn to_json(value: ciborium::Value) -> Value {
    match value {
        ciborium::Value::Integer(number) => {
            let number = i128::from(number);
            i64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from)
        }
        ciborium::Value::Float(number) => Value::from(number),
        ciborium::Value::Bool(flag) => Value::from(flag),
        ciborium::Value::Text(text) => Value::from(text),
        ciborium::Value::Bytes(bytes) => Value::from(hex::encode(bytes)),
        ciborium::Value::Array(items) => items.into_iter().map(to_json).collect(),
        ciborium::Value::Tag(_, value) => to_json(*value),
        ciborium::Value::Map(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(key, value)| (key_to_text(key), to_json(value)));
            Value::Object(entries.collect())
        }
        _ => Value::Null,
    }
}

fn key_to_text(key: ciborium::Value) -> String {
    match to_json(key) {
        Value::String(text) => text,
        // A step run, in the form used everywhere else.
        Value::Object(fields) if fields.contains_key("step") && fields.contains_key("run") => {
            let step = fields["step"].as_str().unwrap_or_default();
            format!("step:{step}:run:{}", fields["run"])
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::id::StepRunId;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_every_kind_become_text() {
        let run = StepRunId {
            step: "a".into(),
            run: 2,
        };
        let by_run = BTreeMap::from([(run, vec![1_u8])]);
        let by_number = BTreeMap::from([(7_u64, Some(by_run))]);
        let value = ciborium::Value::serialized(&by_number).unwrap();
        assert_eq!(to_json(value), json!({"7": {"step:a:run:2": [1]}}));
    }
}
