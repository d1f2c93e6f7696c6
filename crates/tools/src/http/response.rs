//! Converts a response into an outcome: decodes the body by its type and evaluates the status.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::outcome::{ErrorKind, Facets, Outcome, Success, TaskError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use results::Keeper;
use serde_json::{Map, Value, json};

use crate::http::envelope::{self, Around, Form};
use crate::http::receive::{Body, Spool};
use crate::http::request::{Manner, ResponseType};

/// Maximum number of body bytes that an error includes.
pub(crate) const ERROR_BODY_BYTES_MAX: usize = 16 * 1024;

/// Text content types whose name does not begin with `text/`.
const TEXT_TYPES: [&str; 5] = [
    "application/xml",
    "application/javascript",
    "application/x-www-form-urlencoded",
    "application/x-ndjson",
    "application/yaml",
];

/// Response head and received body.
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) url: Url,
    pub(crate) body: Result<Body, TaskError>,
    pub(crate) elapsed: Duration,
}

/// Body as a JSON value.
struct Decoded {
    data: Value,
    is_base64: bool,
    warning: Option<String>,
}

impl Received {
    /// Builds the outcome of the call. A body in a file is streamed to the result store through `keeper`.
    pub(crate) async fn outcome(mut self, manner: &Manner, keeper: Option<&Keeper>) -> Outcome {
        let facets = self.facets();
        let body = std::mem::replace(&mut self.body, Ok(Body::Held(Bytes::new())));
        let outcome = match (body, keeper) {
            (Err(error), _) => Err(error),
            (Ok(Body::Held(body)), _) => self.held(&body, manner),
            (Ok(Body::Spooled(spool)), Some(keeper)) => self.kept(spool, manner, keeper).await,
            (Ok(Body::Spooled(_)), None) => {
                unreachable!("a body is only spooled if there is a keeper")
            }
        };
        outcome.unwrap_or_else(Outcome::error).with_facets(facets)
    }

    fn held(&self, body: &Bytes, manner: &Manner) -> Result<Outcome, TaskError> {
        let content_type = self.content_type();
        if !manner.is_ok(self.status) {
            // For a failed status, report the status even if the body cannot be decoded.
            let decoded = self.decode(body, manner.response_type);
            let decoded = decoded.unwrap_or_else(|_| by_type(body, &content_type));
            return Err(self.failure(body.len(), decoded));
        }
        let decoded = self.decode(body, manner.response_type)?;
        let Around { before, after } = self.around(decoded.is_base64);
        let mut result = before;
        result.insert("data".to_owned(), decoded.data);
        result.extend(after);
        Ok(warned(Outcome::ok(result), decoded.warning))
    }

    async fn kept(
        &self,
        spool: Spool,
        manner: &Manner,
        keeper: &Keeper,
    ) -> Result<Outcome, TaskError> {
        let (form, warning) = self.form(&spool, manner.response_type)?;
        let around = self.around(form == Form::Base64);
        let reference = envelope::keep(around, form, spool, keeper).await?;
        let success = Success {
            reference: Some(Box::new(reference)),
            ..Success::default()
        };
        Ok(warned(Outcome::Ok(success), warning))
    }

    /// Fields of the result before and after `data`.
    fn around(&self, is_base64: bool) -> Around {
        let mut before = Map::new();
        before.insert("status_code".to_owned(), self.status.as_u16().into());
        before.insert("headers".to_owned(), header_map(&self.headers).into());
        let mut after = Map::new();
        after.insert("url".to_owned(), shown(&self.url).into());
        after.insert("elapsed_ms".to_owned(), millis(self.elapsed).into());
        if is_base64 {
            after.insert("encoding".to_owned(), "base64".into());
        }
        Around { before, after }
    }

    fn failure(&self, size: usize, decoded: Decoded) -> TaskError {
        let status = self.status;
        let code = format!("HTTP_{}", status.as_u16());
        let message = format!("{} returned {status}", shown(&without_query(&self.url)));
        let mut error = TaskError::new(kind_of(status), code, message);
        error.retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        error = error.with("status", status.as_u16());
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
        let content_type = self.content_type();
        match wanted {
            ResponseType::Json if body.is_empty() => Ok(plain(Value::Null)),
            ResponseType::Json => {
                let data = serde_json::from_slice(body).map(plain);
                data.map_err(|error| self.not_json(&error.to_string()))
            }
            ResponseType::Text => Ok(plain(Value::String(text(body, &content_type)))),
            ResponseType::Binary => Ok(binary(body)),
            ResponseType::Auto => Ok(by_type(body, &content_type)),
        }
    }

    /// Chooses the encoding of a spooled body by the same rules as `decode`, with a warning if the type is wrong.
    fn form(
        &self,
        spool: &Spool,
        wanted: ResponseType,
    ) -> Result<(Form, Option<String>), TaskError> {
        let content_type = self.content_type();
        let text = if is_latin(&content_type) && !spool.is_utf8() {
            Form::Latin
        } else {
            Form::Text
        };
        let form = match (wanted, Type::of(&content_type)) {
            (ResponseType::Json, _) => {
                let json = spool.json();
                json.map_err(|error| self.not_json(&error.to_string()))?;
                Form::Json
            }
            (ResponseType::Text, _) | (ResponseType::Auto, Type::Text) => text,
            (ResponseType::Auto, Type::Json) => match spool.json() {
                Ok(()) => Form::Json,
                Err(error) => return Ok((text, Some(mislabelled(&error.to_string())))),
            },
            (ResponseType::Auto, Type::Unknown) if spool.json().is_ok() => Form::Json,
            (ResponseType::Auto, Type::Unknown) if spool.is_utf8() => Form::Text,
            (ResponseType::Auto, Type::Unknown | Type::Binary) | (ResponseType::Binary, _) => {
                Form::Base64
            }
        };
        Ok((form, None))
    }

    fn content_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE);
        let value = value.and_then(|value| value.to_str().ok());
        value.unwrap_or("").to_ascii_lowercase()
    }

    fn not_json(&self, problem: &str) -> TaskError {
        let message = format!("response body is not valid JSON: {problem}");
        TaskError::new(ErrorKind::Parse, "HTTP_JSON", message).with("status", self.status.as_u16())
    }
}

/// Body type by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Json,
    Text,
    Binary,
    Unknown,
}

impl Type {
    pub(crate) fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or("").trim();
        let is_text = essence.starts_with("text/")
            || essence.ends_with("+xml")
            || TEXT_TYPES.contains(&essence);
        if essence.ends_with("/json") || essence.ends_with("+json") {
            Self::Json
        } else if is_text {
            Self::Text
        } else if essence.is_empty() {
            Self::Unknown
        } else {
            Self::Binary
        }
    }
}

fn warned(mut outcome: Outcome, warning: Option<String>) -> Outcome {
    if let Some(warning) = warning {
        let meta = outcome.meta_mut();
        meta.insert("warning".to_owned(), Value::String(warning));
    }
    outcome
}

fn mislabelled(problem: &str) -> String {
    format!("content type is JSON, but the body is not: {problem}")
}

/// Error kind of a failed status.
pub(crate) fn kind_of(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 | 403 | 407 => ErrorKind::Auth,
        404 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimit,
        500.. => ErrorKind::ServerError,
        _ => ErrorKind::ClientError,
    }
}

/// Seconds to wait, from the number or date in `Retry-After`.
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
    if body.is_empty() {
        return plain(Value::Null);
    }
    match Type::of(content_type) {
        Type::Json => match serde_json::from_slice(body) {
            Ok(data) => plain(data),
            Err(error) => Decoded {
                warning: Some(mislabelled(&error.to_string())),
                ..plain(Value::String(text(body, content_type)))
            },
        },
        Type::Text => plain(Value::String(text(body, content_type))),
        Type::Binary => binary(body),
        Type::Unknown => match (serde_json::from_slice(body), std::str::from_utf8(body)) {
            (Ok(data), _) => plain(data),
            (_, Ok(text)) => plain(Value::String(text.to_owned())),
            _ => binary(body),
        },
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
    if is_latin(content_type) && std::str::from_utf8(body).is_err() {
        return body.iter().map(|byte| char::from(*byte)).collect();
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    String::from_utf8_lossy(body).into_owned()
}

fn is_latin(content_type: &str) -> bool {
    ["iso-8859-1", "latin1", "latin-1", "us-ascii"]
        .iter()
        .any(|name| content_type.contains(name))
}

/// Headers as a map; values of a repeated header are joined by commas.
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

/// The URL without userinfo.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // This fails only for URLs without a host, which are never sent.
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
