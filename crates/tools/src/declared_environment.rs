//! Environment variables that a task declares in `env` for its program.

use std::collections::BTreeMap;

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::call::Call;

/// Declared environment variables: text, numbers or booleans.
pub fn declared_environment(call: &Call) -> Result<BTreeMap<String, String>, TaskError> {
    let Some(declared) = call.map_field("env")? else {
        return Ok(BTreeMap::new());
    };
    let mut env = BTreeMap::new();
    for (name, value) in declared {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => continue,
            Value::Array(_) | Value::Object(_) => {
                return Err(call.wrong_type_error(&format!("env.{name}"), "text", value));
            }
        };
        if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
            let message = format!("`env.{name}` is not a valid environment variable");
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "env"));
        }
        env.insert(name.clone(), text);
    }
    Ok(env)
}
