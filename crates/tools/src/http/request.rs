//! Builds the request of a call; it can be redirected and sent again.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION,
};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use crate::call::Call;
use crate::http::auth::HttpAuth;
use crate::http::body;
use crate::http::client::{ConnectOptions, PeerTimeouts};
use crate::registry::HttpLimits;
use crate::value_text::text_or_empty;

/// Header by which a server can recognize a retry.
const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// A request that is ready to send.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    /// Headers that hold a credential, besides the standard ones.
    secret_headers: Vec<HeaderName>,
    /// Whether a redirect led to another origin.
    pub is_cross_origin: bool,
}

/// Settings for sending the request and reading the response.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    pub connect_options: ConnectOptions,
    pub follow_redirects: bool,
    pub total_timeout: Duration,
    pub read_timeout: Option<Duration>,
    pub ok_status: Option<OkStatus>,
    pub response_type: BodyFormat,
}

/// How to decode a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// By content type.
    Auto,
    Json,
    Text,
    Binary,
}

/// Statuses that count as success.
#[derive(Debug, Clone)]
pub struct OkStatus(Vec<(u16, u16)>);

impl HttpRequest {
    /// Builds the request of a call; rejects uploads of the `forbidden` files.
    pub async fn new(call: &Call, forbidden: &[PathBuf]) -> Result<Self, TaskError> {
        let method = parse_method(call)?;
        let url = parse_url(call)?;
        let headers = parse_headers(call)?;
        let declared = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let body = body::build_body(call, declared, forbidden).await?;
        let mut request = Self {
            method,
            url,
            headers,
            body: None,
            secret_headers: Vec::new(),
            is_cross_origin: false,
        };
        if let Some(body) = body {
            request.set_body(body)?;
        }
        request.set_idempotency_key(&call.idempotency_key);
        Ok(request)
    }

    /// A request without headers or body, for requests that tools make themselves.
    pub fn new_internal(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            secret_headers: Vec::new(),
            is_cross_origin: false,
        }
    }

    /// Adds the headers or query parameter of a credential; a header that the playbook sets takes precedence.
    pub fn apply_auth(&mut self, auth: &HttpAuth) {
        match auth {
            HttpAuth::Headers(headers) => {
                for (name, value) in headers {
                    self.secret_headers.push(name.clone());
                    self.headers.entry(name).or_insert(value.clone());
                }
            }
            HttpAuth::Query(name, value) => {
                self.url.query_pairs_mut().append_pair(name, value);
            }
            HttpAuth::None | HttpAuth::Oauth(_) | HttpAuth::Digest(_) => {}
        }
    }

    /// Sets the `Authorization` header, which a redirect to another origin drops.
    pub(crate) fn set_authorization(&mut self, value: HeaderValue) {
        self.headers.insert(AUTHORIZATION, value);
    }

    /// Builds the request that follows a redirect.
    pub(crate) fn to_redirected(&self, status: StatusCode, target: Url) -> Self {
        let mut next = self.clone();
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            next.method = Method::GET;
            next.body = None;
            for name in [CONTENT_TYPE, CONTENT_LENGTH] {
                next.headers.remove(name);
            }
            next.headers.remove(IDEMPOTENCY_KEY_HEADER);
        }
        if self.url.origin() != target.origin() {
            let sensitive = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
            for name in sensitive.iter().chain(&self.secret_headers) {
                next.headers.remove(name);
            }
            next.secret_headers.clear();
            next.is_cross_origin = true;
        }
        next.url = target;
        next
    }

    fn set_body(&mut self, body: body::RequestBody) -> Result<(), TaskError> {
        if let Some(content_type) = body.content_type {
            // Multipart bodies have a generated boundary, so their content type always wins.
            if content_type.starts_with("multipart/") || !self.headers.contains_key(CONTENT_TYPE) {
                let value = HeaderValue::from_str(&content_type).map_err(|_| {
                    invalid_field_error(
                        "headers",
                        "the content type contains characters that are not allowed in a header",
                    )
                })?;
                self.headers.insert(CONTENT_TYPE, value);
            }
        }
        self.body = Some(body.bytes);
        Ok(())
    }

    /// Whether the method is safe (has no side effects).
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    fn set_idempotency_key(&mut self, key: &str) {
        if self.is_safe() || key.is_empty() || self.headers.contains_key(IDEMPOTENCY_KEY_HEADER) {
            return;
        }
        if let Ok(value) = HeaderValue::from_str(key) {
            self.headers
                .insert(HeaderName::from_static(IDEMPOTENCY_KEY_HEADER), value);
        }
    }
}

impl RequestOptions {
    /// Reads the settings of a call.
    pub fn new(call: &Call, limits: &HttpLimits) -> Result<Self, TaskError> {
        let response_type = match call.text_field("response_type")? {
            None | Some("auto") => BodyFormat::Auto,
            Some("json") => BodyFormat::Json,
            Some("text") => BodyFormat::Text,
            Some("binary" | "bytes" | "base64") => BodyFormat::Binary,
            Some(other) => {
                let message = format!("invalid value `{other}`; use auto, json, text or binary");
                return Err(invalid_field_error("response_type", &message));
            }
        };
        Ok(Self {
            connect_options: ConnectOptions {
                connect_timeout: call.timeout.connect.unwrap_or(limits.connect),
                verify_ssl: call.flag_field("verify_ssl")?.unwrap_or(true),
            },
            follow_redirects: call.flag_field("follow_redirects")?.unwrap_or(true),
            total_timeout: call.timeout.total.unwrap_or(limits.total),
            read_timeout: call.timeout.read,
            ok_status: call.field("ok_status").map(OkStatus::parse).transpose()?,
            response_type,
        })
    }

    /// Timeouts for the server.
    pub fn timeouts(&self) -> PeerTimeouts {
        PeerTimeouts {
            connect_options: self.connect_options,
            read_timeout: self.read_timeout,
        }
    }

    /// Whether a response with this status is a success.
    pub fn is_ok(&self, status: StatusCode) -> bool {
        match &self.ok_status {
            None => status.as_u16() < 400,
            Some(OkStatus(ranges)) => ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&status.as_u16())),
        }
    }
}

impl OkStatus {
    /// Parses `404`, `"2xx"`, `"200-299"`, or a list of those.
    fn parse(value: &Value) -> Result<Self, TaskError> {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let ranges = items.iter().map(|item| {
            parse_status_range(&text_or_empty(item)).ok_or_else(|| {
                let message = format!("invalid status `{item}`; use 404, 2xx or 200-299");
                invalid_field_error("ok_status", &message)
            })
        });
        ranges.collect::<Result<_, _>>().map(Self)
    }
}

fn parse_status_range(text: &str) -> Option<(u16, u16)> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(class) = text.strip_suffix("xx") {
        let class = class.parse::<u16>().ok().filter(|c| (1..=9).contains(c))?;
        return Some((class * 100, class * 100 + 99));
    }
    match text.split_once('-') {
        Some((low, high)) => Some((low.trim().parse().ok()?, high.trim().parse().ok()?)),
        None => text.parse().ok().map(|status| (status, status)),
    }
}

fn parse_method(call: &Call) -> Result<Method, TaskError> {
    let text = call.text_field("method")?.unwrap_or("GET").to_ascii_uppercase();
    Method::from_bytes(text.as_bytes())
        .map_err(|_| invalid_field_error("method", &format!("`{text}` is not an HTTP method")))
}

fn parse_url(call: &Call) -> Result<Url, TaskError> {
    let text = match call.text_field("url")? {
        Some(text) => text,
        None => call
            .text_field("endpoint")?
            .ok_or_else(|| call.missing_key_error("url", "set the URL to call"))?,
    };
    let mut url = Url::parse(text.trim()).map_err(|error| {
        let message = format!("`{text}` is not a valid URL: {error}; it must begin with http:// or https://");
        invalid_field_error("url", &message)
    })?;
    if let Some(params) = call.map_field("params")? {
        let pairs = body::to_pairs(params);
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
    }
    Ok(url)
}

/// Headers of a call.
pub fn parse_headers(call: &Call) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    let Some(fields) = call.map_field("headers")? else {
        return Ok(headers);
    };
    for (name, value) in fields {
        if value.is_null() {
            continue;
        }
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid_field_error("headers", &format!("`{name}` is not a valid header name")))?;
        let value = HeaderValue::from_str(&text_or_empty(value)).map_err(|_| {
            let message = format!("the value of `{name}` contains characters that are not allowed in a header");
            invalid_field_error("headers", &message)
        })?;
        headers.append(header, value);
    }
    Ok(headers)
}

fn invalid_field_error(key: &str, message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", format!("`{key}`: {message}")).with_detail("key", key)
}
