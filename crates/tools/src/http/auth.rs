//! Who asks: bearer, basic, `api_key`, headers, oauth2, digest.

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

/// How a request says who asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Not at all.
    None,
    /// In headers, which are dropped when a redirect leaves the origin.
    Headers(Vec<(HeaderName, HeaderValue)>),
    /// In the query.
    Query(String, String),
    /// With a token that is asked for first.
    Granted(Box<Grant>),
    /// With the answer to what the peer asks.
    Digest(Login),
}

impl Auth {
    /// How a call says who asks.
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
                "`auth.type: {other}` is not known here; use bearer, basic, digest, api_key, headers or oauth2 with a `token_url`"
            ))),
        }
    }
}

/// The header of a bearer token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, TaskError> {
    secret(&format!("Bearer {token}"))
}

/// The header of a user and a password.
pub(crate) fn basic(user: &str, password: &str) -> Result<HeaderValue, TaskError> {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {pair}"))
}

/// A header value that is not shown.
pub(crate) fn secret(value: &str) -> Result<HeaderValue, TaskError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| invalid("the credential cannot stand in a header"))?;
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
            "`auth.in: {other}` is neither `header` nor `query`"
        ))),
    }
}

fn headers(auth: &Map<String, Value>) -> Result<Auth, TaskError> {
    let Some(Value::Object(given)) = auth.get("headers") else {
        return Err(invalid("`auth` has no map `headers`"));
    };
    let headers = given
        .iter()
        .map(|(name, value)| Ok((header_name(name)?, secret(&scalar(value))?)));
    Ok(Auth::Headers(headers.collect::<Result<_, TaskError>>()?))
}

fn header_name(name: &str) -> Result<HeaderName, TaskError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("`{name}` is not the name of a header")))
}
