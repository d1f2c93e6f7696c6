//! Converts a response into an outcome: decodes the body by its type and evaluates the status.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use results::ResultWriter;
use serde_json::{Map, Value, json};

use crate::call::stored_outcome;
use crate::http::envelope::{self, BodyEncoding, EnvelopeFields};
use crate::http::receive::{ReceivedBody, SpooledBody};
use crate::http::request::{BodyFormat, RequestOptions};

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
pub(crate) struct ReceivedResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) url: Url,
    pub(crate) body: Result<ReceivedBody, TaskError>,
    pub(crate) elapsed: Duration,
}

/// Body as a JSON value.
struct DecodedBody {
    data: Value,
    is_base64: bool,
    warning: Option<String>,
}

impl ReceivedResponse {
    /// Builds the outcome of the call. A body in a file is streamed to the result store through `writer`.
    pub(crate) async fn into_outcome(mut self, options: &RequestOptions, writer: Option<&ResultWriter>) -> Outcome {
        let facets = self.facets();
        let body = std::mem::replace(&mut self.body, Ok(ReceivedBody::InMemory(Bytes::new())));
        let outcome = match (body, writer) {
            (Err(error), _) => Err(error),
            (Ok(ReceivedBody::InMemory(body)), _) => self.in_memory_outcome(&body, options),
            (Ok(ReceivedBody::Spooled(spool)), Some(writer)) => {
                self.store_spooled_outcome(spool, options, writer).await
            }
            (Ok(ReceivedBody::Spooled(_)), None) => {
                unreachable!("a body is only spooled if there is a result writer")
            }
        };
        outcome.unwrap_or_else(Outcome::error).with_facets(facets)
    }

    fn in_memory_outcome(&self, body: &Bytes, options: &RequestOptions) -> Result<Outcome, TaskError> {
        let content_type = self.content_type();
        if !options.is_ok(self.status) {
            // For a failed status, report the status even if the body cannot be decoded.
            let decoded = self.decode(body, options.response_type);
            let decoded = decoded.unwrap_or_else(|_| decode_by_type(body, &content_type));
            return Err(self.status_error(body.len(), decoded));
        }
        let decoded = self.decode(body, options.response_type)?;
        let EnvelopeFields { before, after } = self.envelope_fields(decoded.is_base64);
        let mut result = before;
        result.insert("data".to_owned(), decoded.data);
        result.extend(after);
        Ok(with_warning(Outcome::ok(result), decoded.warning))
    }

    async fn store_spooled_outcome(
        &self,
        spool: SpooledBody,
        options: &RequestOptions,
        writer: &ResultWriter,
    ) -> Result<Outcome, TaskError> {
        let (encoding, warning) = self.spooled_encoding(&spool, options.response_type)?;
        let fields = self.envelope_fields(encoding == BodyEncoding::Base64);
        let reference = envelope::store_envelope(fields, encoding, spool, writer).await?;
        Ok(with_warning(stored_outcome(reference), warning))
    }

    /// Fields of the result before and after `data`.
    fn envelope_fields(&self, is_base64: bool) -> EnvelopeFields {
        let mut before = Map::new();
        before.insert("status_code".to_owned(), self.status.as_u16().into());
        before.insert("headers".to_owned(), header_map(&self.headers).into());
        let mut after = Map::new();
        after.insert("url".to_owned(), display_url(&self.url).into());
        after.insert("elapsed_ms".to_owned(), elapsed_millis(self.elapsed).into());
        if is_base64 {
            after.insert("encoding".to_owned(), "base64".into());
        }
        EnvelopeFields { before, after }
    }

    fn status_error(&self, size: usize, decoded: DecodedBody) -> TaskError {
        let status = self.status;
        let code = format!("HTTP_{}", status.as_u16());
        let message = format!("{} returned {status}", display_url(&without_query(&self.url)));
        let mut error = TaskError::new(error_kind(status), code, message);
        error.retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        error = error.with_detail("status", status.as_u16());
        if size > 0 && size <= ERROR_BODY_BYTES_MAX {
            error = error.with_detail("data", decoded.data);
        } else if let (true, Value::String(text)) = (size > 0, &decoded.data) {
            let cut: String = text.chars().take(ERROR_BODY_BYTES_MAX / 4).collect();
            error = error.with_detail("data", cut);
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

    fn decode(&self, body: &Bytes, format: BodyFormat) -> Result<DecodedBody, TaskError> {
        let content_type = self.content_type();
        match format {
            BodyFormat::Json if body.is_empty() => Ok(plain_body(Value::Null)),
            BodyFormat::Json => {
                let data = serde_json::from_slice(body).map(plain_body);
                data.map_err(|error| self.not_json_error(&error.to_string()))
            }
            BodyFormat::Text => Ok(plain_body(Value::String(decode_text(body, &content_type)))),
            BodyFormat::Binary => Ok(binary_body(body)),
            BodyFormat::Auto => Ok(decode_by_type(body, &content_type)),
        }
    }

    /// Chooses the encoding of a spooled body by the same rules as `decode`, with a warning if the type is wrong.
    fn spooled_encoding(
        &self,
        spool: &SpooledBody,
        format: BodyFormat,
    ) -> Result<(BodyEncoding, Option<String>), TaskError> {
        let content_type = self.content_type();
        let text = if is_latin(&content_type) && !spool.is_utf8() {
            BodyEncoding::Latin1
        } else {
            BodyEncoding::Text
        };
        let encoding = match (format, BodyType::from_content_type(&content_type)) {
            (BodyFormat::Json, _) => {
                let json = spool.check_json();
                json.map_err(|error| self.not_json_error(&error.to_string()))?;
                BodyEncoding::Json
            }
            (BodyFormat::Text, _) | (BodyFormat::Auto, BodyType::Text) => text,
            (BodyFormat::Auto, BodyType::Json) => match spool.check_json() {
                Ok(()) => BodyEncoding::Json,
                Err(error) => return Ok((text, Some(mislabelled_warning(&error.to_string())))),
            },
            (BodyFormat::Auto, BodyType::Unknown) => spool.detect_encoding(),
            (BodyFormat::Auto, BodyType::Binary) | (BodyFormat::Binary, _) => BodyEncoding::Base64,
        };
        Ok((encoding, None))
    }

    fn content_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE);
        let value = value.and_then(|value| value.to_str().ok());
        value.unwrap_or("").to_ascii_lowercase()
    }

    fn not_json_error(&self, problem: &str) -> TaskError {
        let message = format!("response body is not valid JSON: {problem}");
        TaskError::new(ErrorKind::Parse, "HTTP_JSON", message).with_detail("status", self.status.as_u16())
    }
}

/// Body type by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyType {
    Json,
    Text,
    Binary,
    Unknown,
}

impl BodyType {
    pub(crate) fn from_content_type(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or("").trim();
        let is_text = essence.starts_with("text/") || essence.ends_with("+xml") || TEXT_TYPES.contains(&essence);
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

fn with_warning(mut outcome: Outcome, warning: Option<String>) -> Outcome {
    if let Some(warning) = warning {
        let meta = outcome.meta_mut();
        meta.insert("warning".to_owned(), Value::String(warning));
    }
    outcome
}

fn mislabelled_warning(problem: &str) -> String {
    format!("content type is JSON, but the body is not: {problem}")
}

/// Error kind of a failed status.
pub fn error_kind(status: StatusCode) -> ErrorKind {
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

fn decode_by_type(body: &Bytes, content_type: &str) -> DecodedBody {
    if body.is_empty() {
        return plain_body(Value::Null);
    }
    match BodyType::from_content_type(content_type) {
        BodyType::Json => match serde_json::from_slice(body) {
            Ok(data) => plain_body(data),
            Err(error) => DecodedBody {
                warning: Some(mislabelled_warning(&error.to_string())),
                ..plain_body(Value::String(decode_text(body, content_type)))
            },
        },
        BodyType::Text => plain_body(Value::String(decode_text(body, content_type))),
        BodyType::Binary => binary_body(body),
        BodyType::Unknown => match (serde_json::from_slice(body), std::str::from_utf8(body)) {
            (Ok(data), _) => plain_body(data),
            (_, Ok(text)) => plain_body(Value::String(text.to_owned())),
            _ => binary_body(body),
        },
    }
}

fn plain_body(data: Value) -> DecodedBody {
    DecodedBody {
        data,
        is_base64: false,
        warning: None,
    }
}

fn binary_body(body: &Bytes) -> DecodedBody {
    DecodedBody {
        is_base64: true,
        ..plain_body(Value::String(STANDARD.encode(body)))
    }
}

fn decode_text(body: &Bytes, content_type: &str) -> String {
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
fn display_url(url: &Url) -> String {
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

#[expect(clippy::cast_precision_loss, reason = "microseconds of a call fit a double")]
fn elapsed_millis(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_after_of(value: &str) -> Option<f64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480);
        retry_after(&headers, now)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after_of("120"), Some(120.0));
        assert_eq!(retry_after_of("Wed, 21 Oct 2015 07:29:00 GMT"), Some(60.0));
        assert_eq!(retry_after_of("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0.0));
        assert_eq!(retry_after_of("soon"), None);
        assert_eq!(retry_after_of("-3"), None);
    }
}
