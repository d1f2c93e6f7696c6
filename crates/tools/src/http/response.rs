//! From a response to an outcome: the body read within its bound, its type decided, its status judged.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Map, Value, json};

use crate::call::timed_out;
use crate::http::client::sort;
use crate::http::request::{Manner, ResponseType};

/// Of a failed response's body no more than this is put into the error.
const ERROR_BODY_BYTES_MAX: usize = 16 * 1024;

/// The head of a response and what became of its body.
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) url: Url,
    pub(crate) body: Result<Bytes, TaskError>,
    pub(crate) elapsed: Duration,
}

/// A body as data.
struct Decoded {
    data: Value,
    is_base64: bool,
    warning: Option<String>,
}

/// Reads a body, decompressed, up to a bound; a peer that falls silent for `read` has timed out.
pub(crate) async fn read(
    mut response: Response,
    bytes_max: usize,
    read: Option<Duration>,
) -> Result<Bytes, TaskError> {
    let mut body = BytesMut::new();
    loop {
        let next = response.chunk();
        let chunk = match read {
            None => next.await,
            Some(limit) => tokio::time::timeout(limit, next)
                .await
                .map_err(|_| timed_out(limit).with("phase", "read"))?,
        };
        let Some(chunk) = chunk.map_err(|error| sort(&error))? else {
            return Ok(body.freeze());
        };
        if body.len() + chunk.len() > bytes_max {
            let message = format!("the response is larger than {bytes_max} bytes");
            return Err(TaskError::new(
                ErrorKind::Schema,
                "HTTP_BODY_TOO_LARGE",
                message,
            ));
        }
        body.extend_from_slice(&chunk);
    }
}

impl Received {
    /// The outcome of the call.
    pub(crate) fn outcome(self, manner: &Manner) -> Outcome {
        let facets = self.facets();
        let outcome = match &self.body {
            Err(error) => Outcome::error(error.clone()),
            Ok(body) => match self.decode(body, manner.response_type) {
                Err(error) => Outcome::error(error),
                Ok(decoded) if manner.is_ok(self.status) => self.success(decoded),
                Ok(decoded) => Outcome::error(self.failure(decoded)),
            },
        };
        outcome.with_facets(facets)
    }

    fn success(&self, decoded: Decoded) -> Outcome {
        let mut result = json!({
            "status_code": self.status.as_u16(),
            "headers": header_map(&self.headers),
            "data": decoded.data,
            "url": shown(&self.url),
            "elapsed_ms": millis(self.elapsed),
        });
        if decoded.is_base64 {
            result["encoding"] = json!("base64");
        }
        let mut outcome = Outcome::ok(result);
        if let Some(warning) = decoded.warning {
            let meta = outcome.meta_mut();
            meta.insert("warning".to_owned(), Value::String(warning));
        }
        outcome
    }

    fn failure(&self, decoded: Decoded) -> TaskError {
        let status = self.status;
        let code = format!("HTTP_{}", status.as_u16());
        let message = format!("{} answered {status}", shown(&without_query(&self.url)));
        let mut error = TaskError::new(kind_of(status), code, message);
        error.retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        error = error.with("status", status.as_u16());
        let size = self.body.as_ref().map_or(0, Bytes::len);
        if size > 0 && size <= ERROR_BODY_BYTES_MAX {
            error = error.with("data", decoded.data);
        } else if let (true, Value::String(text)) = (size > 0, &decoded.data) {
            let cut: String = text.chars().take(ERROR_BODY_BYTES_MAX / 4).collect();
            error = error.with("data", cut);
        }
        error
    }

    fn facets(&self) -> Facets {
        let http = json!({
            "status": self.status.as_u16(),
            "headers": header_map(&self.headers),
            "retry_after": retry_after(&self.headers, SystemTime::now()),
        });
        Facets {
            http: Some(http),
            ..Facets::default()
        }
    }

    fn decode(&self, body: &Bytes, wanted: ResponseType) -> Result<Decoded, TaskError> {
        let content_type = self.headers.get(CONTENT_TYPE);
        let content_type = content_type.and_then(|v| v.to_str().ok()).unwrap_or("");
        let content_type = content_type.to_ascii_lowercase();
        match wanted {
            ResponseType::Json if body.is_empty() => Ok(plain(Value::Null)),
            ResponseType::Json => serde_json::from_slice(body).map(plain).map_err(|error| {
                let message = format!("the response is not JSON: {error}");
                TaskError::new(ErrorKind::Parse, "HTTP_JSON", message)
                    .with("status", self.status.as_u16())
            }),
            ResponseType::Text => Ok(plain(Value::String(text(body, &content_type)))),
            ResponseType::Binary => Ok(binary(body)),
            ResponseType::Auto => Ok(by_type(body, &content_type)),
        }
    }
}

/// The class of a status that is not a success.
pub(crate) fn kind_of(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 | 403 | 407 => ErrorKind::Auth,
        404 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimit,
        500.. => ErrorKind::ServerError,
        _ => ErrorKind::ClientError,
    }
}

/// Seconds to wait, from a number or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<f64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then_some(seconds);
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let date = SystemTime::from(date.timestamp());
    let wait = date.duration_since(now).unwrap_or_default();
    Some(wait.as_secs_f64().ceil())
}

fn by_type(body: &Bytes, content_type: &str) -> Decoded {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if body.is_empty() {
        return plain(Value::Null);
    }
    if essence.ends_with("/json") || essence.ends_with("+json") {
        return match serde_json::from_slice(body) {
            Ok(data) => plain(data),
            Err(error) => Decoded {
                warning: Some(format!("the response says it is JSON, but is not: {error}")),
                ..plain(Value::String(text(body, content_type)))
            },
        };
    }
    let is_text = essence.starts_with("text/")
        || essence.ends_with("+xml")
        || [
            "application/xml",
            "application/javascript",
            "application/x-www-form-urlencoded",
            "application/x-ndjson",
            "application/yaml",
        ]
        .contains(&essence);
    if is_text {
        return plain(Value::String(text(body, content_type)));
    }
    if !essence.is_empty() {
        return binary(body);
    }
    match (serde_json::from_slice(body), std::str::from_utf8(body)) {
        (Ok(data), _) => plain(data),
        (_, Ok(text)) => plain(Value::String(text.to_owned())),
        _ => binary(body),
    }
}

fn plain(data: Value) -> Decoded {
    Decoded {
        data,
        is_base64: false,
        warning: None,
    }
}

fn binary(body: &Bytes) -> Decoded {
    Decoded {
        is_base64: true,
        ..plain(Value::String(STANDARD.encode(body)))
    }
}

fn text(body: &Bytes, content_type: &str) -> String {
    let is_latin = ["iso-8859-1", "latin1", "latin-1", "us-ascii"]
        .iter()
        .any(|name| content_type.contains(name));
    if is_latin && std::str::from_utf8(body).is_err() {
        return body.iter().map(|byte| char::from(*byte)).collect();
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    String::from_utf8_lossy(body).into_owned()
}

/// Headers as a map; a repeated one is joined by commas.
fn header_map(headers: &HeaderMap) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        match map.get_mut(name.as_str()) {
            Some(Value::String(text)) => {
                text.push_str(", ");
                text.push_str(&value);
            }
            _ => {
                map.insert(name.as_str().to_owned(), Value::String(value.into_owned()));
            }
        }
    }
    map
}

/// The address without the credentials that may stand in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Only addresses without a host refuse this, and they are never sent.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

fn without_query(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a call fit a double"
)]
fn millis(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(value: &str) -> Option<f64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480);
        retry_after(&headers, now)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(after("120"), Some(120.0));
        assert_eq!(after("Wed, 21 Oct 2015 07:29:00 GMT"), Some(60.0));
        assert_eq!(after("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0.0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-3"), None);
    }
}
