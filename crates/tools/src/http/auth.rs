//! Authentication of a request: bearer, basic, digest, `api_key`, headers, oauth2.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::TaskError;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::auth::{auth_text, call_auth, invalid_auth_error, require_auth_text};
use crate::call::Call;
use crate::http::digest::DigestLogin;
use crate::http::oauth::OauthGrant;
use crate::value_text::text_or_empty;

/// How a request is authenticated.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpAuth {
    /// No authentication.
    None,
    /// Headers, which a redirect to another origin drops.
    Headers(Vec<(HeaderName, HeaderValue)>),
    /// A query parameter.
    Query(String, String),
    /// A token that is requested first.
    Oauth(Box<OauthGrant>),
    /// The response to a digest challenge.
    Digest(DigestLogin),
}

impl HttpAuth {
    /// Reads the authentication of a call from its `auth`.
    pub fn from_call(call: &Call) -> Result<Self, TaskError> {
        let Some(auth) = call_auth(call)? else {
            return Ok(Self::None);
        };
        let kind = auth_text(auth, &["type", "kind"]).unwrap_or_else(|| "bearer".to_owned());
        match kind.as_str() {
            "none" => Ok(Self::None),
            "oauth2" | "oauth" | "oauth2_client_credentials" | "client_credentials"
                if auth.contains_key("token_url") =>
            {
                Ok(Self::Oauth(Box::new(OauthGrant::from_auth(auth)?)))
            }
            "bearer" | "oauth2" | "oauth" | "token" => {
                let token = require_auth_text(auth, &["token", "access_token", "value"])?;
                Ok(Self::Headers(vec![(AUTHORIZATION, bearer_header(&token)?)]))
            }
            "basic" => {
                let login = DigestLogin::from_auth(auth)?;
                Ok(Self::Headers(vec![(
                    AUTHORIZATION,
                    basic_header(&login.user, &login.password)?,
                )]))
            }
            "digest" => Ok(Self::Digest(DigestLogin::from_auth(auth)?)),
            "api_key" | "apikey" | "header" => api_key_auth(auth),
            "headers" | "custom" => header_auth(auth),
            other => Err(invalid_auth_error(format!(
                "invalid `auth.type: {other}`; use bearer, basic, digest, api_key, headers or oauth2 with a `token_url`"
            ))),
        }
    }
}

/// `Authorization` value for a bearer token.
pub(crate) fn bearer_header(token: &str) -> Result<HeaderValue, TaskError> {
    secret_header_value(&format!("Bearer {token}"))
}

/// `Authorization` value for basic authentication.
pub(crate) fn basic_header(user: &str, password: &str) -> Result<HeaderValue, TaskError> {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    secret_header_value(&format!("Basic {pair}"))
}

/// A header value that is hidden in debug output.
pub(crate) fn secret_header_value(value: &str) -> Result<HeaderValue, TaskError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| invalid_auth_error("the credential contains characters that are not allowed in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn api_key_auth(auth: &Map<String, Value>) -> Result<HttpAuth, TaskError> {
    let value = require_auth_text(auth, &["value", "api_key", "token", "secret"])?;
    let name = auth_text(auth, &["header", "name", "key", "param"]);
    match auth_text(auth, &["in", "location"]).as_deref() {
        Some("query") => {
            let name = name.unwrap_or_else(|| "api_key".to_owned());
            Ok(HttpAuth::Query(name, value))
        }
        None | Some("header") => {
            let name = parse_header_name(name.as_deref().unwrap_or("X-API-Key"))?;
            let prefix = auth_text(auth, &["prefix"]).map(|prefix| format!("{prefix} "));
            let value = format!("{}{value}", prefix.unwrap_or_default());
            Ok(HttpAuth::Headers(vec![(name, secret_header_value(&value)?)]))
        }
        Some(other) => Err(invalid_auth_error(format!(
            "invalid `auth.in: {other}`; use `header` or `query`"
        ))),
    }
}

fn header_auth(auth: &Map<String, Value>) -> Result<HttpAuth, TaskError> {
    let Some(Value::Object(headers)) = auth.get("headers") else {
        return Err(invalid_auth_error("`auth.headers` is required and must be a map"));
    };
    let headers = headers
        .iter()
        .map(|(name, value)| Ok((parse_header_name(name)?, secret_header_value(&text_or_empty(value))?)));
    Ok(HttpAuth::Headers(headers.collect::<Result<_, TaskError>>()?))
}

fn parse_header_name(name: &str) -> Result<HeaderName, TaskError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid_auth_error(format!("`{name}` is not a valid header name")))
}
