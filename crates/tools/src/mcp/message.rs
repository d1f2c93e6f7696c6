//! JSON-RPC 2.0 messages.

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value, json};

use crate::call::{LogSink, Stream};

/// Protocol version to propose; a server may respond with an older one.
pub(crate) const VERSION: &str = "2025-06-18";

/// Supported protocol versions.
const VERSIONS: [&str; 4] = ["2025-11-25", VERSION, "2025-03-26", "2024-11-05"];

/// Maximum total size of the messages of one exchange.
pub(crate) const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A received message.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// Response to the request with this ID.
    Answer(u64, Value),
    /// Request of the server, with its ID and method.
    Question(Value, String),
    /// Notification of the server.
    News(String, Value),
    /// Any other message.
    Other,
}

/// A request.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification.
pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// Parameters of `initialize`.
pub(crate) fn hello() -> Value {
    json!({
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "noetl", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Protocol version that the server chose.
pub(crate) fn chosen(answer: &Value) -> Result<String, TaskError> {
    let version = answer.get("protocolVersion").and_then(Value::as_str);
    match version {
        Some(version) if VERSIONS.contains(&version) => Ok(version.to_owned()),
        other => {
            let message = format!(
                "unsupported MCP version {}; supported versions are {}",
                other.unwrap_or("?"),
                VERSIONS.join(", ")
            );
            Err(TaskError::new(
                ErrorKind::ClientError,
                "MCP_VERSION",
                message,
            ))
        }
    }
}

/// Reply to a request of the server: a pong, or "method not found".
pub(crate) fn reply(id: &Value, method: &str) -> Value {
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
            .map_err(|error| protocol(format!("the server sent invalid JSON: {error}")))?;
        let Value::Object(mut message) = message else {
            return Ok(Self::Other);
        };
        let method = message
            .get("method")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (method, id) {
            (Some(method), Some(id)) => Ok(Self::Question(id, method)),
            (Some(method), None) => {
                let params = message.remove("params").unwrap_or_default();
                Ok(Self::News(method, params))
            }
            (None, Some(id)) => match id.as_u64() {
                Some(id) => Ok(Self::Answer(id, Value::Object(message))),
                None => Ok(Self::Other),
            },
            (None, None) => Ok(Self::Other),
        }
    }

    /// Logs a notification if it is a log message.
    pub(crate) fn log(method: &str, params: &Value, log: &dyn LogSink) {
        if method != "notifications/message" {
            return;
        }
        let text = match params.get("data") {
            Some(Value::String(text)) => text.clone(),
            Some(data) => data.to_string(),
            None => return,
        };
        log.line(Stream::Stderr, &text);
    }
}

/// Result of a response, or the error in it.
pub(crate) fn result_of(answer: Value) -> Result<Value, TaskError> {
    let Value::Object(mut answer) = answer else {
        return Err(protocol("the server's response is not an object"));
    };
    if let Some(error) = answer.get("error").and_then(Value::as_object) {
        return Err(refused(error));
    }
    let result = answer.remove("result");
    result.ok_or_else(|| protocol("the server's response has neither a result nor an error"))
}

fn refused(error: &Map<String, Value>) -> TaskError {
    let code = error
        .get("code")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str);
    let kind = match code {
        -32601 | -32002 => ErrorKind::NotFound,
        -32600 | -32602 => ErrorKind::Schema,
        _ => ErrorKind::ServerError,
    };
    let message = format!(
        "the server returned an error: {}",
        message.unwrap_or("no message")
    );
    let mut failed = TaskError::new(kind, "MCP_REFUSED", message).with("rpc_code", code);
    if let Some(data) = error.get("data") {
        failed = failed.with("data", data.clone());
    }
    // Errors inside a server are usually permanent.
    failed.retryable = false;
    failed
}

/// Error of a server that violates the protocol or ends the connection.
pub(crate) fn protocol(message: impl Into<String>) -> TaskError {
    TaskError::new(ErrorKind::Connection, "MCP_PROTOCOL", message)
}

/// Error of messages that are too large.
pub(crate) fn too_large() -> TaskError {
    let message = format!("the server's messages exceed the limit of {BYTES_MAX} bytes");
    TaskError::new(ErrorKind::Schema, "MCP_TOO_LARGE", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &str| Incoming::parse(text.as_bytes()).unwrap();
        assert!(matches!(
            parse(r#"{"id": 3, "result": {}}"#),
            Incoming::Answer(3, _)
        ));
        assert_eq!(
            parse(r#"{"id": "x", "method": "ping"}"#),
            Incoming::Question("x".into(), "ping".into())
        );
        assert_eq!(
            parse(r#"{"method": "n", "params": 1}"#),
            Incoming::News("n".into(), 1.into())
        );
        assert_eq!(parse(r#"{"id": null, "error": {}}"#), Incoming::Other);
        assert_eq!(parse("[]"), Incoming::Other);
        assert_eq!(Incoming::parse(b"hello").unwrap_err().code, "MCP_PROTOCOL");
    }

    #[test]
    fn an_error_is_named_by_its_number() {
        let answer = json!({"error": {"code": -32602, "message": "no such tool", "data": 1}});
        let error = result_of(answer).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.kind),
            ("MCP_REFUSED", ErrorKind::Schema)
        );
        assert_eq!(error.details["rpc_code"], -32602);
        assert_eq!(result_of(json!({"result": 1})).unwrap(), 1);
        assert_eq!(result_of(json!({})).unwrap_err().code, "MCP_PROTOCOL");
    }
}
