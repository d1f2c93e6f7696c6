//! MCP over HTTP: each message is a POST; the response is JSON or an event stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::Value;

use crate::call::LogSink;
use crate::http::{Auth, Clients, Pace, Proof, Request, Sent, kind_of, sort};
use crate::mcp::message::{BYTES_MAX, Incoming, protocol, reply, result_of, too_large};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Time limit for ending a session.
const GOODBYE: Duration = Duration::from_secs(2);

/// Session over HTTP.
pub(crate) struct HttpLine {
    pub(crate) clients: Arc<Clients>,
    pub(crate) url: Url,
    /// Headers that the playbook sets.
    pub(crate) headers: HeaderMap,
    pub(crate) auth: Auth,
    pub(crate) pace: Pace,
    pub(crate) session: Option<HeaderValue>,
    pub(crate) version: Option<HeaderValue>,
}

/// Splits a stream into events.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl HttpLine {
    /// Sends a request and waits for its response.
    pub(crate) async fn ask(
        &mut self,
        id: u64,
        message: &Value,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        let Sent { response, turn } = self.post(Method::POST, Some(message)).await?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.clone());
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status, response).await);
        }
        if is_stream {
            return self.listen(id, Sent { response, turn }, log).await;
        }
        let answer = single(id, response).await;
        drop(turn);
        answer
    }

    /// Sends a notification.
    pub(crate) async fn tell(&self, message: &Value) -> Result<(), TaskError> {
        let sent = self.post(Method::POST, Some(message)).await?;
        let status = sent.response.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(refused(status, sent.response).await)
        }
    }

    /// Ends the session, if there is one. Errors are ignored, because servers may not support it.
    pub(crate) async fn close(&self) {
        if self.session.is_some() {
            let _ = tokio::time::timeout(GOODBYE, self.post(Method::DELETE, None)).await;
        }
    }

    async fn post(&self, method: Method, message: Option<&Value>) -> Result<Sent, TaskError> {
        let mut request = Request::plain(method, self.url.clone());
        request.headers = self.headers.clone();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        request.headers.insert(ACCEPT, both);
        if let Some(message) = message {
            let json = HeaderValue::from_static("application/json");
            request.headers.insert(CONTENT_TYPE, json);
            request.body = Some(Bytes::from(message.to_string()));
        }
        for (name, value) in [(SESSION, &self.session), (VERSION, &self.version)] {
            if let Some(value) = value {
                request.headers.insert(name, value.clone());
            }
        }
        request.carry(&self.auth);
        let mut proof = Proof::begin(&self.auth, &self.clients, self.pace);
        proof.put_into(&mut request).await?;
        loop {
            let sent = self.clients.send(&request, self.pace).await?;
            if let Some(sent) = proof.answer(sent, &mut request).await? {
                return Ok(sent);
            }
        }
    }

    /// Reads events until the response arrives.
    async fn listen(&self, id: u64, sent: Sent, log: &dyn LogSink) -> Result<Value, TaskError> {
        let (mut response, mut turn) = (sent.response, Some(sent.turn));
        let mut events = Events::default();
        let mut size = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| sort(&error))? {
            size += chunk.len();
            if size > BYTES_MAX {
                return Err(too_large());
            }
            for event in events.feed(&chunk) {
                match Incoming::parse(&event)? {
                    Incoming::Answer(answered, answer) if answered == id => {
                        return result_of(answer);
                    }
                    Incoming::Question(question, method) => {
                        // The reply needs a host permit, and all permits may be held by streams that wait for replies.
                        drop(turn.take());
                        self.tell(&reply(&question, &method)).await?;
                    }
                    Incoming::News(method, params) => Incoming::log(&method, &params, log),
                    Incoming::Answer(..) | Incoming::Other => {}
                }
            }
        }
        Err(protocol("the server closed the stream before it responded"))
    }
}

/// Reads a response that is one JSON document.
async fn single(id: u64, response: Response) -> Result<Value, TaskError> {
    let body = body(response).await?;
    match Incoming::parse(&body)? {
        Incoming::Answer(answered, answer) if answered == id => result_of(answer),
        _ => Err(protocol("the server's response does not match the request")),
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, TaskError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| sort(&error))? {
        if body.len() + chunk.len() > BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Error of a failed status, with the server's message if there is one.
async fn refused(status: StatusCode, response: Response) -> TaskError {
    let said = body(response).await.unwrap_or_default();
    let said: Option<Value> = serde_json::from_slice(&said).ok();
    let said = said
        .as_ref()
        .and_then(|said| said["error"]["message"].as_str());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let message = format!("the server returned {status}{said}");
    let code = format!("HTTP_{}", status.as_u16());
    let mut error = TaskError::new(kind_of(status), code, message);
    error.retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    if error.kind == ErrorKind::NotFound {
        error.message.push_str("; the URL is not an MCP endpoint");
    }
    error.with("status", status.as_u16())
}

impl Events {
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
    fn events_are_cut_wherever_chunks_end() {
        let stream =
            b": hello\r\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\n\n\n";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let found: Vec<_> = stream
                .chunks(size)
                .flat_map(|chunk| events.feed(chunk))
                .collect();
            assert_eq!(found, [b"{\"a\":\n1}".to_vec(), b"x".to_vec()], "{size}");
        }
    }
}
