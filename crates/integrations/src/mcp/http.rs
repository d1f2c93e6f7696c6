//! MCP over HTTP: each message is a POST; the response is JSON or an event stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::Value;
use tools::LogSink;
use tools::http::{
    AuthExchange, HttpAuth, HttpClients, HttpRequest, PeerTimeouts, PendingResponse, classify_error, error_kind,
};

use crate::mcp::message::{
    EXCHANGE_BYTES_MAX, Incoming, exchange_too_large_error, into_result, protocol_error, reply_message,
};

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Time limit for ending a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Session over HTTP.
pub(crate) struct HttpSession {
    pub(crate) clients: Arc<HttpClients>,
    pub(crate) url: Url,
    /// Headers that the playbook sets.
    pub(crate) headers: HeaderMap,
    pub(crate) auth: HttpAuth,
    pub(crate) timeouts: PeerTimeouts,
    pub(crate) session: Option<HeaderValue>,
    pub(crate) version: Option<HeaderValue>,
}

/// Splits a stream into events.
#[derive(Default)]
struct EventSplitter {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl HttpSession {
    /// Sends a request and waits for its response.
    pub(crate) async fn request(&mut self, id: u64, message: &Value, log: &dyn LogSink) -> Result<Value, TaskError> {
        let PendingResponse { response, permit } = self.send_message(Method::POST, Some(message)).await?;
        if let Some(session) = response.headers().get(SESSION_HEADER) {
            self.session = Some(session.clone());
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type
            .and_then(|content_type| content_type.to_str().ok())
            .unwrap_or_default();
        let is_stream = content_type.starts_with("text/event-stream");
        let status = response.status();
        if !status.is_success() {
            return Err(read_status_error(status, response).await);
        }
        if is_stream {
            return self.read_events(id, PendingResponse { response, permit }, log).await;
        }
        let response = read_json_response(id, response).await;
        drop(permit);
        response
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, message: &Value) -> Result<(), TaskError> {
        let pending = self.send_message(Method::POST, Some(message)).await?;
        let status = pending.response.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(read_status_error(status, pending.response).await)
        }
    }

    /// Ends the session, if there is one. Errors are ignored, because servers may not support it.
    pub(crate) async fn close(&self) {
        if self.session.is_some() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.send_message(Method::DELETE, None)).await;
        }
    }

    async fn send_message(&self, method: Method, message: Option<&Value>) -> Result<PendingResponse, TaskError> {
        let mut request = HttpRequest::new_internal(method, self.url.clone());
        request.headers = self.headers.clone();
        let accepted_types = HeaderValue::from_static("application/json, text/event-stream");
        request.headers.insert(ACCEPT, accepted_types);
        if let Some(message) = message {
            let json = HeaderValue::from_static("application/json");
            request.headers.insert(CONTENT_TYPE, json);
            request.body = Some(Bytes::from(message.to_string()));
        }
        for (name, value) in [(SESSION_HEADER, &self.session), (VERSION_HEADER, &self.version)] {
            if let Some(value) = value {
                request.headers.insert(name, value.clone());
            }
        }
        request.apply_auth(&self.auth);
        let mut auth_exchange = AuthExchange::new(&self.auth, &self.clients, self.timeouts);
        auth_exchange.apply_token(&mut request).await?;
        loop {
            let pending = self.clients.send(&request, self.timeouts).await?;
            if let Some(pending) = auth_exchange.retry_refused(pending, &mut request).await? {
                return Ok(pending);
            }
        }
    }

    /// Reads events until the response arrives.
    async fn read_events(&self, id: u64, pending: PendingResponse, log: &dyn LogSink) -> Result<Value, TaskError> {
        let (mut response, mut permit) = (pending.response, Some(pending.permit));
        let mut events = EventSplitter::default();
        let mut received_bytes = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| classify_error(&error))? {
            received_bytes += chunk.len();
            if received_bytes > EXCHANGE_BYTES_MAX {
                return Err(exchange_too_large_error());
            }
            for event in events.feed(&chunk) {
                match Incoming::parse(&event)? {
                    Incoming::Response(response_id, response) if response_id == id => {
                        return into_result(response);
                    }
                    Incoming::Request(request_id, method) => {
                        // The reply needs a host permit, and all permits may be held by streams that wait for replies.
                        drop(permit.take());
                        self.notify(&reply_message(&request_id, &method)).await?;
                    }
                    Incoming::Notification(method, params) => {
                        Incoming::log_notification(&method, &params, log);
                    }
                    Incoming::Response(..) | Incoming::Other => {}
                }
            }
        }
        Err(protocol_error("the server closed the stream before it responded"))
    }
}

/// Reads a response that is one JSON document.
async fn read_json_response(id: u64, response: Response) -> Result<Value, TaskError> {
    let body = read_body(response).await?;
    match Incoming::parse(&body)? {
        Incoming::Response(response_id, response) if response_id == id => into_result(response),
        _ => Err(protocol_error("the server's response does not match the request")),
    }
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, TaskError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| classify_error(&error))? {
        if body.len() + chunk.len() > EXCHANGE_BYTES_MAX {
            return Err(exchange_too_large_error());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Error of a failed status, with the server's message if there is one.
async fn read_status_error(status: StatusCode, response: Response) -> TaskError {
    let detail = read_body(response).await.unwrap_or_default();
    let detail: Option<Value> = serde_json::from_slice(&detail).ok();
    let detail = detail.as_ref().and_then(|detail| detail["error"]["message"].as_str());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    let message = format!("the server returned {status}{detail}");
    let code = format!("HTTP_{}", status.as_u16());
    let mut error = TaskError::new(error_kind(status), code, message);
    error.retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    if error.kind == ErrorKind::NotFound {
        error.message.push_str("; the URL is not an MCP endpoint");
    }
    error.with_detail("status", status.as_u16())
}

impl EventSplitter {
    /// Data of the events that a chunk completes.
    fn feed(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        for byte in chunk {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                if !self.data.is_empty() {
                    events.push(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                let data = data.strip_prefix(b" ").unwrap_or(data);
                self.data.extend_from_slice(data);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_at_any_chunk_boundary() {
        let stream = b": hello\r\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\n\n\n";
        for size in 1..stream.len() {
            let mut events = EventSplitter::default();
            let messages: Vec<_> = stream.chunks(size).flat_map(|chunk| events.feed(chunk)).collect();
            assert_eq!(messages, [b"{\"a\":\n1}".to_vec(), b"x".to_vec()], "{size}");
        }
    }
}
