//! Credentials of a request, given as a map: bearer, basic, `api_key`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::{ErrorKind, TaskError};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::call::Call;

/// Where a credential goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// Into a header, which is dropped when a redirect leaves the origin.
    Header(HeaderName, HeaderValue),
    /// Into the query.
    Query(String, String),
}

/// The credential of a call, if it has one.
pub(crate) fn credential(call: &Call) -> Result<Option<Credential>, TaskError> {
    let auth = match call.field("auth") {
        None => return Ok(None),
        Some(Value::Object(auth)) => auth,
        Some(Value::String(name)) => {
            let message = format!("the credential `{name}` was not resolved before the call");
            return Err(TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message));
        }
        Some(other) => return Err(call.wrong_type("auth", "a map {type, …}", other)),
    };
    let kind = text(auth, &["type", "kind"]).unwrap_or_else(|| "bearer".to_owned());
    match kind.as_str() {
        "none" => Ok(None),
        "bearer" | "oauth2" | "token" => {
            let token = need(auth, &["token", "access_token", "value"])?;
            header("authorization", &format!("Bearer {token}")).map(Some)
        }
        "basic" => {
            let user = need(auth, &["username", "user", "login"])?;
            let password = text(auth, &["password", "secret"]).unwrap_or_default();
            let pair = STANDARD.encode(format!("{user}:{password}"));
            header("authorization", &format!("Basic {pair}")).map(Some)
        }
        "api_key" | "apikey" | "header" => api_key(auth).map(Some),
        other => Err(invalid(format!(
            "`auth.type: {other}` is not known to http; use bearer, basic or api_key"
        ))),
    }
}

fn api_key(auth: &Map<String, Value>) -> Result<Credential, TaskError> {
    let value = need(auth, &["value", "api_key", "token", "secret"])?;
    let name = text(auth, &["header", "name", "key"]).unwrap_or_else(|| "X-API-Key".to_owned());
    match text(auth, &["in", "location"]).as_deref() {
        Some("query") => Ok(Credential::Query(name, value)),
        _ => header(&name, &value),
    }
}

fn header(name: &str, value: &str) -> Result<Credential, TaskError> {
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("`{name}` is not the name of a header")))?;
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| invalid("the credential cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(Credential::Header(name, value))
}

fn need(auth: &Map<String, Value>, keys: &[&str]) -> Result<String, TaskError> {
    text(auth, keys).ok_or_else(|| invalid(format!("`auth` has no `{}`", keys[0])))
}

fn text(auth: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter()
        .find_map(|key| auth.get(*key).and_then(Value::as_str))
        .map(str::to_owned)
}

fn invalid(message: String) -> TaskError {
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
