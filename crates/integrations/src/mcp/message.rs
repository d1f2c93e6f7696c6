//! JSON-RPC 2.0 messages.

use model::outcome::{ErrorKind, TaskError};
use model::task_log::LogStream;
use serde_json::{Map, Value, json};
use tools::{LogSink, plain_text};

/// Protocol version to propose; a server may respond with an older one.
pub(crate) const PROTOCOL_VERSION: &str = "2025-06-18";

/// Supported protocol versions.
const KNOWN_VERSIONS: [&str; 4] = ["2025-11-25", PROTOCOL_VERSION, "2025-03-26", "2024-11-05"];

/// Maximum total size of the messages of one exchange.
pub(crate) const EXCHANGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A received message.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// Response to the request with this ID.
    Response(u64, Value),
    /// Request of the server, with its ID and method.
    Request(Value, String),
    /// Notification of the server.
    Notification(String, Value),
    /// Any other message.
    Other,
}

/// A request.
pub(crate) fn request_message(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification.
pub(crate) fn notification_message(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// Parameters of `initialize`.
pub(crate) fn initialize() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "noetl", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Protocol version that the server chose.
pub(crate) fn negotiated_version(response: &Value) -> Result<String, TaskError> {
    let version = response.get("protocolVersion").and_then(Value::as_str);
    match version {
        Some(version) if KNOWN_VERSIONS.contains(&version) => Ok(version.to_owned()),
        other => {
            let message = format!(
                "unsupported MCP version {}; supported versions are {}",
                other.unwrap_or("?"),
                KNOWN_VERSIONS.join(", ")
            );
            Err(TaskError::new(ErrorKind::ClientError, "MCP_VERSION", message))
        }
    }
}

/// Reply to a request of the server: a pong, or "method not found".
pub(crate) fn reply_message(id: &Value, method: &str) -> Value {
    if method == "ping" {
        return json!({"jsonrpc": "2.0", "id": id, "result": {}});
    }
    let error = json!({"code": -32601, "message": "method not supported by this client"});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

impl Incoming {
    /// Parses one message.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TaskError> {
        let message: Value = serde_json::from_slice(text)
            .map_err(|error| protocol_error(format!("the server sent invalid JSON: {error}")))?;
        let Value::Object(mut message) = message else {
            return Ok(Self::Other);
        };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (method, id) {
            (Some(method), Some(id)) => Ok(Self::Request(id, method)),
            (Some(method), None) => {
                let params = message.remove("params").unwrap_or_default();
                Ok(Self::Notification(method, params))
            }
            (None, Some(id)) => match id.as_u64() {
                Some(id) => Ok(Self::Response(id, Value::Object(message))),
                None => Ok(Self::Other),
            },
            (None, None) => Ok(Self::Other),
        }
    }

    /// Logs a notification if it is a log message.
    pub(crate) fn log_notification(method: &str, params: &Value, log: &dyn LogSink) {
        if let ("notifications/message", Some(data)) = (method, params.get("data")) {
            log.write_line(LogStream::Stderr, &plain_text(data));
        }
    }
}

/// Result of a response, or the error in it.
pub(crate) fn into_result(response: Value) -> Result<Value, TaskError> {
    let Value::Object(mut response) = response else {
        return Err(protocol_error("the server's response is not an object"));
    };
    if let Some(error) = response.get("error").and_then(Value::as_object) {
        return Err(rpc_error(error));
    }
    let result = response.remove("result");
    result.ok_or_else(|| protocol_error("the server's response has neither a result nor an error"))
}

fn rpc_error(error: &Map<String, Value>) -> TaskError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str);
    let kind = match code {
        -32601 | -32002 => ErrorKind::NotFound,
        -32600 | -32602 => ErrorKind::Schema,
        _ => ErrorKind::ServerError,
    };
    let message = format!("the server returned an error: {}", message.unwrap_or("no message"));
    let mut task_error = TaskError::new(kind, "MCP_REFUSED", message).with_detail("rpc_code", code);
    if let Some(data) = error.get("data") {
        task_error = task_error.with_detail("data", data.clone());
    }
    // Errors inside a server are usually permanent.
    task_error.retryable = false;
    task_error
}

/// Error of a server that violates the protocol or ends the connection.
pub(crate) fn protocol_error(message: impl Into<String>) -> TaskError {
    TaskError::new(ErrorKind::Connection, "MCP_PROTOCOL", message)
}

/// Error of messages that are too large.
pub(crate) fn exchange_too_large_error() -> TaskError {
    let message = format!("the server's messages exceed the limit of {EXCHANGE_BYTES_MAX} bytes");
    TaskError::new(ErrorKind::Schema, "MCP_TOO_LARGE", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_classified() {
        let parse = |text: &str| Incoming::parse(text.as_bytes()).unwrap();
        assert!(matches!(parse(r#"{"id": 3, "result": {}}"#), Incoming::Response(3, _)));
        assert_eq!(
            parse(r#"{"id": "x", "method": "ping"}"#),
            Incoming::Request("x".into(), "ping".into())
        );
        assert_eq!(
            parse(r#"{"method": "n", "params": 1}"#),
            Incoming::Notification("n".into(), 1.into())
        );
        assert_eq!(parse(r#"{"id": null, "error": {}}"#), Incoming::Other);
        assert_eq!(parse("[]"), Incoming::Other);
        assert_eq!(Incoming::parse(b"hello").unwrap_err().code, "MCP_PROTOCOL");
    }

    #[test]
    fn an_error_is_classified_by_its_number() {
        let response = json!({"error": {"code": -32602, "message": "no such tool", "data": 1}});
        let error = into_result(response).unwrap_err();
        assert_eq!((error.code.as_str(), error.kind), ("MCP_REFUSED", ErrorKind::Schema));
        assert_eq!(error.details["rpc_code"], -32602);
        assert_eq!(into_result(json!({"result": 1})).unwrap(), 1);
        assert_eq!(into_result(json!({})).unwrap_err().code, "MCP_PROTOCOL");
    }
}
