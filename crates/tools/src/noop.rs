//! The `noop` tool: returns its input.
//!
//! Input: `result`, `message` or `input`. Output: `result` if it is set, else the input with `message`, else the input,
//! else null.

use async_trait::async_trait;
use model::outcome::Outcome;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult};

/// The `noop` tool.
pub(crate) struct NoopTool;

#[async_trait]
impl Tool for NoopTool {
    fn is_pure(&self) -> bool {
        true
    }

    fn records_call(&self) -> bool {
        true
    }

    async fn run(&self, mut call: Call, _stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        if let Some(result) = call.fields.remove("result") {
            return Ok(Outcome::ok(result));
        }
        let mut echo = call.input;
        if let Some(message) = call.fields.remove("message") {
            echo.insert("message".to_owned(), message);
        }
        Ok(Outcome::ok(if echo.is_empty() {
            Value::Null
        } else {
            Value::Object(echo)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::DiscardingLogSink;
    use serde_json::json;

    async fn run_noop(fields: Value, input: Value) -> Outcome {
        let mut call = Call::new("noop");
        call.fields = fields.as_object().unwrap().clone();
        call.input = input.as_object().unwrap().clone();
        NoopTool.call(call, CancellationToken::new(), &DiscardingLogSink).await
    }

    #[tokio::test]
    async fn the_field_result_is_the_result() {
        assert_eq!(
            run_noop(json!({"result": [1]}), json!({"a": 1})).await,
            Outcome::ok(json!([1]))
        );
    }

    #[tokio::test]
    async fn a_message_is_echoed() {
        assert_eq!(
            run_noop(json!({"message": "hi"}), json!({})).await,
            Outcome::ok(json!({"message": "hi"}))
        );
    }

    #[tokio::test]
    async fn without_fields_the_result_is_null() {
        assert_eq!(run_noop(json!({}), json!({})).await, Outcome::ok(Value::Null));
    }
}
