//! Reads the request of a call: a tool, a resource, a prompt, or any method.

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value, json};
use tools::Call;

/// Request to send.
#[derive(Debug, PartialEq)]
pub(crate) struct MethodCall {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

impl MethodCall {
    /// Reads the request of a call.
    pub(crate) fn from_call(call: &Call) -> Result<Self, TaskError> {
        let (tool, prompt, uri) = (
            call.text_field("tool")?,
            call.text_field("prompt")?,
            call.text_field("uri")?,
        );
        let method = call.text_field("method")?;
        let method = match (method, tool, prompt, uri) {
            (Some(method), ..) => method,
            (None, Some(_), None, None) => "tools/call",
            (None, None, Some(_), None) => "prompts/get",
            (None, None, None, Some(_)) => "resources/read",
            (None, None, None, None) => {
                let remedy = "set it, or `prompt`, `uri` or `method` (such as tools/list)";
                return Err(call.missing_key_error("tool", remedy));
            }
            _ => {
                let message = "`tool`, `prompt` and `uri` are mutually exclusive";
                return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
            }
        };
        let mut params = call.map_field("params")?.cloned().unwrap_or_default();
        if let Some(name) = tool.or(prompt) {
            params.insert("name".to_owned(), name.into());
        }
        if let Some(uri) = uri {
            params.insert("uri".to_owned(), uri.into());
        }
        if matches!(method, "tools/call" | "prompts/get") && !params.contains_key("arguments") {
            let arguments = call.map_field("arguments")?.unwrap_or(&call.input).clone();
            let arguments = match method {
                "prompts/get" => text_arguments(arguments),
                _ => arguments,
            };
            params.insert("arguments".to_owned(), arguments.into());
        }
        Ok(Self {
            method: method.to_owned(),
            params,
        })
    }

    /// Key of the list in a paginated result.
    pub(crate) fn page_key(&self) -> Option<&'static str> {
        match self.method.as_str() {
            "tools/list" => Some("tools"),
            "resources/list" => Some("resources"),
            "resources/templates/list" => Some("resourceTemplates"),
            "prompts/list" => Some("prompts"),
            _ => None,
        }
    }

    /// Parameters for a page.
    pub(crate) fn page_params(&self, cursor: Option<&Value>) -> Value {
        let mut params = json!(self.params);
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.clone();
        }
        params
    }
}

/// Converts arguments to text, as prompts require.
fn text_arguments(arguments: Map<String, Value>) -> Map<String, Value> {
    let text = |value: Value| match value {
        Value::String(_) => value,
        other => Value::String(other.to_string()),
    };
    let arguments = arguments.into_iter();
    arguments.map(|(name, value)| (name, text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::testing::build_call;

    fn method_call(fields: Value, input: Value) -> MethodCall {
        MethodCall::from_call(&build_call("mcp", fields, input)).unwrap()
    }

    #[test]
    fn the_method_follows_from_the_fields() {
        let add = method_call(json!({"tool": "add", "arguments": {"a": 1}}), json!({"b": 2}));
        assert_eq!(add.method, "tools/call");
        assert_eq!(Value::from(add.params), json!({"name": "add", "arguments": {"a": 1}}));
        let input = method_call(json!({"tool": "add"}), json!({"b": 2}));
        assert_eq!(input.params["arguments"], json!({"b": 2}));
        let prompt = method_call(json!({"prompt": "p", "arguments": {"n": 1}}), json!({}));
        assert_eq!(prompt.method, "prompts/get");
        assert_eq!(prompt.params["arguments"], json!({"n": "1"}));
        assert_eq!(method_call(json!({"uri": "x://y"}), json!({})).method, "resources/read");
        let list = method_call(json!({"method": "tools/list"}), json!({}));
        assert_eq!((list.page_key(), list.params.len()), (Some("tools"), 0));
    }

    #[test]
    fn a_call_has_exactly_one_request() {
        for fields in [json!({}), json!({"tool": "a", "uri": "b"}), json!({"tool": 1})] {
            let error = MethodCall::from_call(&build_call("mcp", fields, json!({}))).unwrap_err();
            assert_eq!(error.code, "TOOL_INPUT");
        }
    }
}
