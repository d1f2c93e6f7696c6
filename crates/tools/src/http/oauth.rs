//! OAuth 2 tokens: requested with client credentials or a refresh token and cached until shortly before they expire.
//! Concurrent calls share one request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::{auth_text, invalid_auth_error, require_auth_text};
use crate::http::auth::basic_header;
use crate::http::body::encode_form;
use crate::http::client::{HttpClients, PeerTimeouts};
use crate::http::receive;
use crate::http::request::HttpRequest;
use crate::http::response::error_kind;
use crate::value_text::text_or_empty;

/// A token is replaced this long before it expires, or after four fifths of its lifetime if that is later.
const EXPIRY_MARGIN_MAX: Duration = Duration::from_secs(30);

/// Maximum number of cached tokens; beyond it, unused ones are dropped.
const TOKENS_MAX: usize = 256;

/// Maximum size of a token response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of the endpoint's error description in our message.
const REASON_CHARS_MAX: usize = 200;

/// Parameters of a token request.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OauthGrant {
    token_url: Url,
    client_id: String,
    client_secret: String,
    scope: Option<String>,
    audience: Option<String>,
    refresh_token: Option<String>,
    placement: Option<CredentialPlacement>,
    extra: Vec<(String, String)>,
}

/// Where the client credentials go in a token request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CredentialPlacement {
    Body,
    Header,
}

/// Token cache of a worker.
#[derive(Default)]
pub(crate) struct OauthTokenCache(Mutex<HashMap<OauthGrant, TokenSlot>>);

/// The lock is held while a token is requested, so that concurrent calls wait for the same response.
type TokenSlot = Arc<tokio::sync::Mutex<Option<OauthToken>>>;

#[derive(Clone)]
struct OauthToken {
    value: String,
    valid_until: Option<Instant>,
    /// Refresh token for the next request, if the server issues a new one each time.
    refresh_token: Option<String>,
}

/// Response of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

impl OauthGrant {
    /// Reads a credential of type oauth2.
    pub(crate) fn from_auth(auth: &Map<String, Value>) -> Result<Self, TaskError> {
        let token_url = Url::parse(&require_auth_text(auth, &["token_url"])?)
            .map_err(|error| invalid_auth_error(format!("`auth.token_url` is not a valid URL: {error}")))?;
        let placement = match auth_text(auth, &["client_auth", "auth_method"]).as_deref() {
            None => None,
            Some("post" | "client_secret_post" | "body") => Some(CredentialPlacement::Body),
            Some("basic" | "client_secret_basic" | "header") => Some(CredentialPlacement::Header),
            Some(other) => {
                let message = format!("invalid `auth.client_auth: {other}`; use `post` or `basic`");
                return Err(invalid_auth_error(message));
            }
        };
        let scope = match auth.get("scope").or_else(|| auth.get("scopes")) {
            Some(Value::Array(scopes)) => Some(scopes.iter().map(text_or_empty).collect::<Vec<_>>().join(" ")),
            Some(Value::String(scope)) => Some(scope.clone()),
            _ => None,
        };
        let extra = auth.get("params").and_then(Value::as_object);
        let extra = extra.into_iter().flatten();
        Ok(Self {
            token_url,
            client_id: require_auth_text(auth, &["client_id"])?,
            client_secret: auth_text(auth, &["client_secret"]).unwrap_or_default(),
            scope,
            audience: auth_text(auth, &["audience"]),
            refresh_token: auth_text(auth, &["refresh_token"]),
            placement,
            extra: extra.map(|(key, value)| (key.clone(), text_or_empty(value))).collect(),
        })
    }

    fn token_request(&self, refresh: Option<&str>, placement: CredentialPlacement) -> Result<HttpRequest, TaskError> {
        let mut fields: Vec<(&str, &str)> = match refresh {
            Some(token) => vec![("grant_type", "refresh_token"), ("refresh_token", token)],
            None => vec![("grant_type", "client_credentials")],
        };
        let optional = [("scope", &self.scope), ("audience", &self.audience)];
        let optional_fields = optional.iter().filter_map(|(key, value)| {
            let value = value.as_deref()?;
            Some((*key, value))
        });
        fields.extend(optional_fields);
        let extra = self.extra.iter();
        fields.extend(extra.map(|(key, value)| (key.as_str(), value.as_str())));
        let mut request = HttpRequest::new_internal(Method::POST, self.token_url.clone());
        match placement {
            CredentialPlacement::Header => {
                let (user, password) = (encode_component(&self.client_id), encode_component(&self.client_secret));
                request.set_authorization(basic_header(&user, &password)?);
            }
            CredentialPlacement::Body => {
                fields.push(("client_id", &self.client_id));
                fields.push(("client_secret", &self.client_secret));
            }
        }
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(CONTENT_TYPE, form);
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(ACCEPT, json);
        request.body = Some(Bytes::from(encode_form(&fields)));
        Ok(request)
    }
}

impl OauthTokenCache {
    /// Returns a token for a grant; never the one in `refused`, which the server rejected.
    pub(crate) async fn token(
        &self,
        grant: &OauthGrant,
        clients: &HttpClients,
        timeouts: PeerTimeouts,
        refused: Option<&str>,
    ) -> Result<String, TaskError> {
        let slot = self.slot(grant);
        let mut cached = slot.lock().await;
        if let Some(token) = cached.as_ref()
            && token.valid_until.is_none_or(|end| Instant::now() < end)
            && refused != Some(token.value.as_str())
        {
            return Ok(token.value.clone());
        }
        // Keep the old token during the request: if the server rotates refresh tokens, no other one is valid.
        let refresh = cached.as_ref().and_then(|token| token.refresh_token.clone());
        let refresh = refresh.or_else(|| grant.refresh_token.clone());
        match request_token(grant, clients, timeouts, refresh.as_deref()).await {
            Ok(mut token) => {
                token.refresh_token = token.refresh_token.or(refresh);
                Ok(cached.insert(token).value.clone())
            }
            Err(error) => {
                if error.kind == ErrorKind::Auth {
                    *cached = None;
                }
                Err(error)
            }
        }
    }

    fn slot(&self, grant: &OauthGrant) -> TokenSlot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= TOKENS_MAX && !slots.contains_key(grant) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(grant.clone()).or_default().clone()
    }
}

/// Requests a token. If the grant does not set `client_auth`, tries the body first, then the header.
async fn request_token(
    grant: &OauthGrant,
    clients: &HttpClients,
    timeouts: PeerTimeouts,
    refresh: Option<&str>,
) -> Result<OauthToken, TaskError> {
    let first = grant.placement.unwrap_or(CredentialPlacement::Body);
    let (status, body) = send_token_request(&grant.token_request(refresh, first)?, clients, timeouts).await?;
    let is_refused = matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    let is_about_the_client = refusal_reason(&body).is_none_or(|reason| reason.starts_with("invalid_client"));
    if !(is_refused && is_about_the_client && grant.placement.is_none()) {
        return parse_token(status, &body);
    }
    let (status, body) = send_token_request(
        &grant.token_request(refresh, CredentialPlacement::Header)?,
        clients,
        timeouts,
    )
    .await?;
    parse_token(status, &body)
}

async fn send_token_request(
    request: &HttpRequest,
    clients: &HttpClients,
    timeouts: PeerTimeouts,
) -> Result<(StatusCode, Bytes), TaskError> {
    let pending = clients.send(request, timeouts).await;
    // The task's own request has not been sent.
    let pending = pending.map_err(|error| error.with_detail("sent", false))?;
    let status = pending.response.status();
    let body = receive::read_bytes(pending.response, RESPONSE_BYTES_MAX).await;
    Ok((status, body.map_err(|error| error.with_detail("sent", false))?))
}

fn parse_token(status: StatusCode, body: &[u8]) -> Result<OauthToken, TaskError> {
    if !status.is_success() {
        let reason = refusal_reason(body).map(|reason| format!(": {reason}"));
        let message = format!("the token endpoint returned {status}{}", reason.unwrap_or_default());
        let kind = match error_kind(status) {
            ErrorKind::ServerError => ErrorKind::ServerError,
            ErrorKind::RateLimit => ErrorKind::RateLimit,
            _ => ErrorKind::Auth,
        };
        return Err(TaskError::new(kind, "OAUTH_TOKEN", message).with_detail("status", status.as_u16()));
    }
    let response: TokenResponse = serde_json::from_slice(body).map_err(|_| {
        let message = "the token endpoint's response is not JSON with an `access_token`";
        TaskError::new(ErrorKind::Auth, "OAUTH_TOKEN", message)
    })?;
    let seconds = response.expires_in.as_ref().map(text_or_empty);
    let lifetime = seconds.and_then(|seconds| seconds.parse::<f64>().ok());
    let lifetime = lifetime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let usable_time = lifetime.map(|lifetime| lifetime.saturating_sub(EXPIRY_MARGIN_MAX.min(lifetime / 5)));
    Ok(OauthToken {
        value: response.access_token,
        valid_until: usable_time.and_then(|usable_time| Instant::now().checked_add(usable_time)),
        refresh_token: response.refresh_token,
    })
}

/// Error and description from a token endpoint's response.
fn refusal_reason(body: &[u8]) -> Option<String> {
    let response: Value = serde_json::from_slice(body).ok()?;
    let error = response.get("error")?.as_str()?;
    let description = response.get("error_description").and_then(Value::as_str);
    let text = match description {
        Some(description) => format!("{error}: {description}"),
        None => error.to_owned(),
    };
    Some(text.chars().take(REASON_CHARS_MAX).collect())
}

/// Form-encodes text.
fn encode_component(text: &str) -> String {
    let form = encode_form(&[("", text)]);
    form.strip_prefix('=').unwrap_or(&form).to_owned()
}

impl fmt::Debug for OauthGrant {
    /// Shows only the client ID.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthGrant")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}
