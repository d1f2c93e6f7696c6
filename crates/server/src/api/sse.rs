//! Server-sent events: messages as bytes that streams share, and the response that sends them.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};

use crate::api::error::ApiError;

/// Interval of keep-alive messages.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A message as it is sent. Cloning it does not copy the text.
pub(crate) fn render_message(id: Option<&str>, event: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + 64);
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = writeln!(text, "event: {event}");
    for line in data.split(['\n', '\r']) {
        let _ = writeln!(text, "data: {line}");
    }
    text.push('\n');
    Bytes::from(text)
}

/// Sends messages until the stream ends, and a comment whenever there is none for some time.
pub(crate) fn stream_messages(messages: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let chunks = unfold(Box::pin(messages), |mut messages| async move {
        let chunk = tokio::select! {
            biased;
            message = messages.next() => message?,
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(chunk), messages))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

/// The ID of the last message that a client has received on an earlier connection.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let detail = "invalid `Last-Event-ID`: expected the ID of a message of this stream";
        ApiError::invalid("LAST_EVENT_ID_INVALID", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_line_per_field() {
        let message = render_message(Some("7"), "step.done", "{}");
        assert_eq!(message, "id: 7\nevent: step.done\ndata: {}\n\n");
        let lines = render_message(None, "end", "a\nb");
        assert_eq!(lines, "event: end\ndata: a\ndata: b\n\n");
    }
}
