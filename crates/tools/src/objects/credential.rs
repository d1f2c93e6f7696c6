//! Parses credentials for buckets.

use model::outcome::{ErrorKind, TaskError};
use results::{GcsIdentity, S3Config, SecretString};
use serde_json::{Map, Value};

use crate::auth::unresolved_auth_error;

/// Endpoint and identity for Google Cloud Storage.
pub(super) struct GcsEndpoint {
    pub(super) endpoint: Option<String>,
    pub(super) identity: GcsIdentity,
}

/// Keys of an S3 credential, with their names in the client.
const S3_KEYS: [(&str, &[&str]); 3] = [
    (
        "aws_access_key_id",
        &["access_key_id", "aws_access_key_id", "key_id", "access_key"],
    ),
    (
        "aws_secret_access_key",
        &["secret_access_key", "aws_secret_access_key", "secret_key", "secret"],
    ),
    ("aws_session_token", &["session_token", "aws_session_token"]),
];

/// S3 bucket configuration from a credential.
pub(super) fn s3_config(bucket: String, auth: Option<&Value>) -> Result<S3Config, TaskError> {
    let auth = auth_map(auth)?;
    let mut credentials = Vec::new();
    let is_anonymous = auth_text(auth, &["type"]).as_deref() == Some("none");
    for (name, keys) in S3_KEYS {
        match auth_text(auth, keys) {
            Some(value) => credentials.push((name.to_owned(), SecretString::new(value))),
            None if is_anonymous || name == "aws_session_token" => {}
            None => return Err(invalid_auth_error(&format!("`{}` is missing", keys[0]))),
        }
    }
    if is_anonymous {
        credentials.push(("aws_skip_signature".to_owned(), SecretString::new("true")));
    }
    let region = auth_text(auth, &["region", "aws_region"]);
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    // The region becomes part of a host name.
    if !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(invalid_auth_error("`region` may only contain letters, digits and `-`"));
    }
    Ok(S3Config {
        bucket,
        endpoint: auth_text(auth, &["endpoint", "endpoint_url", "url"]),
        region: Some(region),
        credentials,
    })
}

/// Google Cloud Storage configuration from a credential.
pub(super) fn gcs_endpoint(auth: Option<&Value>) -> Result<GcsEndpoint, TaskError> {
    let auth = auth_map(auth)?;
    let endpoint = auth_text(auth, &["endpoint", "endpoint_url", "url"]);
    let key = ["service_account", "service_account_json", "key", "credentials"];
    let key = key.iter().find_map(|name| auth.get(*name));
    let key = match key {
        Some(Value::Object(key)) => Some(Value::Object(key.clone()).to_string()),
        Some(Value::String(key)) => Some(key.clone()),
        // The credential may be the service account's JSON itself.
        _ if auth.contains_key("private_key") => Some(Value::Object(auth.clone()).to_string()),
        _ => None,
    };
    if let Some(key) = key {
        let endpoint = match endpoint {
            Some(endpoint) => Some(endpoint),
            None => key_endpoint(&key)?,
        };
        return Ok(GcsEndpoint {
            endpoint,
            identity: GcsIdentity::Key(SecretString::new(key)),
        });
    }
    let identity = match (auth_text(auth, &["access_token", "token"]), &endpoint) {
        (Some(token), _) => GcsIdentity::Token(SecretString::new(token)),
        (None, Some(_)) => GcsIdentity::Anonymous,
        (None, None) => {
            return Err(invalid_auth_error("set `service_account` or `access_token`"));
        }
    };
    Ok(GcsEndpoint { endpoint, identity })
}

/// Endpoint in a service account's key, if it is not Google's; it is treated like an explicit endpoint.
fn key_endpoint(key: &str) -> Result<Option<String>, TaskError> {
    let key: Value =
        serde_json::from_str(key).map_err(|_| invalid_auth_error("`service_account` is not valid JSON"))?;
    match key.get("gcs_base_url") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(url)) => Ok(Some(url.clone())),
        Some(_) => Err(invalid_auth_error("`gcs_base_url` must be text")),
    }
}

fn auth_map(auth: Option<&Value>) -> Result<&Map<String, Value>, TaskError> {
    match auth {
        Some(Value::Object(map)) => Ok(map),
        Some(Value::String(name)) => Err(unresolved_auth_error(name)),
        Some(_) => Err(invalid_auth_error("it must be a map")),
        None => Err(TaskError::new(
            ErrorKind::Auth,
            "AUTH_INVALID",
            "a bucket requires a `credential`: set it to a name or to `{access_key_id, secret_access_key, region}`; `{type: none}` is anonymous",
        )),
    }
}

fn auth_text(auth: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let value = keys.iter().find_map(|key| auth.get(*key).and_then(Value::as_str));
    value.filter(|text| !text.is_empty()).map(str::to_owned)
}

fn invalid_auth_error(problem: &str) -> TaskError {
    let message = format!("invalid credential: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
