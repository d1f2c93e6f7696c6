//! Converts the response of a server to the result of a task.

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

/// Maximum length of a tool's error text in the message.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Result of a method.
pub(crate) fn method_result(method: &str, result: Value) -> Result<Value, TaskError> {
    match method {
        "tools/call" => tool_result(result),
        "resources/read" => Ok(resource_result(result)),
        _ => Ok(result),
    }
}

/// Result of a tool: its structured content, else its text, which may be JSON, else the list of content items.
fn tool_result(mut result: Value) -> Result<Value, TaskError> {
    let content = result["content"].take();
    if result["isError"] == true {
        let text = content_texts(&content).join("\n");
        let text: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
        let message = if text.is_empty() {
            "the tool failed without a message".to_owned()
        } else {
            text
        };
        let error = TaskError::new(ErrorKind::ClientError, "MCP_TOOL_ERROR", message);
        return Err(error.with_detail("content", content));
    }
    match result["structuredContent"].take() {
        Value::Null => Ok(unwrap_single(content)),
        structured => Ok(structured),
    }
}

/// A resource with one content item is that item: JSON, text, or base64 under `blob`.
fn resource_result(mut result: Value) -> Value {
    let contents = result["contents"].take();
    match contents {
        Value::Array(mut pieces) if pieces.len() == 1 => match pieces.remove(0) {
            Value::Object(piece) if piece.get("text").is_some_and(Value::is_string) => {
                parse_text(piece["text"].as_str().unwrap_or_default())
            }
            piece => piece,
        },
        pieces => pieces,
    }
}

fn unwrap_single(content: Value) -> Value {
    match content {
        Value::Array(mut pieces) if pieces.len() == 1 => content_value(pieces.remove(0)),
        Value::Array(pieces) if pieces.is_empty() => Value::Null,
        Value::Array(pieces) => pieces.into_iter().map(content_value).collect(),
        other => other,
    }
}

/// Text becomes JSON if it is valid JSON; other content items are unchanged.
fn content_value(piece: Value) -> Value {
    match (&piece["type"], &piece["text"]) {
        (Value::String(kind), Value::String(text)) if kind == "text" => parse_text(text),
        _ => piece,
    }
}

fn parse_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn content_texts(content: &Value) -> Vec<&str> {
    let pieces = content.as_array().into_iter().flatten();
    pieces.filter_map(|piece| piece["text"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn structured_content_precedes_text_and_json_precedes_plain_text() {
        let called = |result| method_result("tools/call", result).unwrap();
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(
            called(json!({"content": [text("x")], "structuredContent": {"a": 1}})),
            json!({"a": 1})
        );
        assert_eq!(called(json!({"content": [text("{\"a\": 1}")]})), json!({"a": 1}));
        assert_eq!(called(json!({"content": [text("hello")]})), json!("hello"));
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        assert_eq!(called(json!({"content": [text("1"), image]})), json!([1, image]));
        assert_eq!(called(json!({"content": []})), Value::Null);
    }

    #[test]
    fn a_failed_tool_is_an_error() {
        let result = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        let error = method_result("tools/call", result).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.message.as_str(), error.retryable),
            ("MCP_TOOL_ERROR", "no", false)
        );
    }

    #[test]
    fn a_resource_is_its_text() {
        let one = json!({"contents": [{"uri": "a", "text": "[1]"}]});
        assert_eq!(method_result("resources/read", one).unwrap(), json!([1]));
        let blob = json!({"contents": [{"uri": "a", "blob": "aGk="}]});
        assert_eq!(method_result("resources/read", blob).unwrap()["blob"], "aGk=");
    }
}
