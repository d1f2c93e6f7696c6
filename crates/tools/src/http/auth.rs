//! Authentication of a request: bearer, basic, digest, `api_key`, headers, oauth2.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::TaskError;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::auth::{auth, invalid, need, text};
use crate::call::Call;
use crate::http::body::scalar;
use crate::http::digest::Login;
use crate::http::oauth::Grant;

/// How a request is authenticated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// No authentication.
    None,
    /// Headers, which a redirect to another origin drops.
    Headers(Vec<(HeaderName, HeaderValue)>),
    /// A query parameter.
    Query(String, String),
    /// A token that is requested first.
    Granted(Box<Grant>),
    /// The response to a digest challenge.
    Digest(Login),
}

impl Auth {
    /// Reads the authentication of a call from its `auth`.
    pub(crate) fn of(call: &Call) -> Result<Self, TaskError> {
        let Some(auth) = auth(call)? else {
            return Ok(Self::None);
        };
        let kind = text(auth, &["type", "kind"]).unwrap_or_else(|| "bearer".to_owned());
        match kind.as_str() {
            "none" => Ok(Self::None),
            "oauth2" | "oauth" | "oauth2_client_credentials" | "client_credentials"
                if auth.contains_key("token_url") =>
            {
                Ok(Self::Granted(Box::new(Grant::of(auth)?)))
            }
            "bearer" | "oauth2" | "oauth" | "token" => {
                let token = need(auth, &["token", "access_token", "value"])?;
                Ok(Self::Headers(vec![(AUTHORIZATION, bearer(&token)?)]))
            }
            "basic" => {
                let login = Login::of(auth)?;
                Ok(Self::Headers(vec![(
                    AUTHORIZATION,
                    basic(&login.user, &login.password)?,
                )]))
            }
            "digest" => Ok(Self::Digest(Login::of(auth)?)),
            "api_key" | "apikey" | "header" => api_key(auth),
            "headers" | "custom" => headers(auth),
            other => Err(invalid(format!(
                "invalid `auth.type: {other}`; use bearer, basic, digest, api_key, headers or oauth2 with a `token_url`"
            ))),
        }
    }
}

/// `Authorization` value for a bearer token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, TaskError> {
    secret(&format!("Bearer {token}"))
}

/// `Authorization` value for basic authentication.
pub(crate) fn basic(user: &str, password: &str) -> Result<HeaderValue, TaskError> {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {pair}"))
}

/// A header value that is hidden in debug output.
pub(crate) fn secret(value: &str) -> Result<HeaderValue, TaskError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        invalid("the credential contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn api_key(auth: &Map<String, Value>) -> Result<Auth, TaskError> {
    let value = need(auth, &["value", "api_key", "token", "secret"])?;
    let name = text(auth, &["header", "name", "key", "param"]);
    match text(auth, &["in", "location"]).as_deref() {
        Some("query") => {
            let name = name.unwrap_or_else(|| "api_key".to_owned());
            Ok(Auth::Query(name, value))
        }
        None | Some("header") => {
            let name = header_name(name.as_deref().unwrap_or("X-API-Key"))?;
            let prefix = text(auth, &["prefix"]).map(|prefix| format!("{prefix} "));
            let value = format!("{}{value}", prefix.unwrap_or_default());
            Ok(Auth::Headers(vec![(name, secret(&value)?)]))
        }
        Some(other) => Err(invalid(format!(
            "invalid `auth.in: {other}`; use `header` or `query`"
        ))),
    }
}

fn headers(auth: &Map<String, Value>) -> Result<Auth, TaskError> {
    let Some(Value::Object(given)) = auth.get("headers") else {
        return Err(invalid("`auth.headers` is required and must be a map"));
    };
    let headers = given
        .iter()
        .map(|(name, value)| Ok((header_name(name)?, secret(&scalar(value))?)));
    Ok(Auth::Headers(headers.collect::<Result<_, TaskError>>()?))
}

fn header_name(name: &str) -> Result<HeaderName, TaskError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("`{name}` is not a valid header name")))
}
