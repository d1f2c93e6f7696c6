//! Who asks a bucket, out of a credential.

use model::outcome::{ErrorKind, TaskError};
use results::{GcsIdentity, S3Config, Secret};
use serde_json::{Map, Value};

/// Where Google is asked, and as whom.
pub(super) struct Endpoint {
    pub(super) endpoint: Option<String>,
    pub(super) identity: GcsIdentity,
}

/// The keys of a credential for S3, and what the client calls them.
const S3_KEYS: [(&str, &[&str]); 3] = [
    (
        "aws_access_key_id",
        &["access_key_id", "aws_access_key_id", "key_id", "access_key"],
    ),
    (
        "aws_secret_access_key",
        &[
            "secret_access_key",
            "aws_secret_access_key",
            "secret_key",
            "secret",
        ],
    ),
    ("aws_session_token", &["session_token", "aws_session_token"]),
];

/// A bucket of S3 as a credential reaches it.
pub(super) fn s3(bucket: String, auth: Option<&Value>) -> Result<S3Config, TaskError> {
    let auth = map(auth)?;
    let mut credentials = Vec::new();
    let is_anonymous = text(auth, &["type"]).as_deref() == Some("none");
    for (name, keys) in S3_KEYS {
        match text(auth, keys) {
            Some(value) => credentials.push((name.to_owned(), Secret::new(value))),
            None if is_anonymous || name == "aws_session_token" => {}
            None => return Err(invalid(&format!("it has no `{}`", keys[0]))),
        }
    }
    if is_anonymous {
        credentials.push(("aws_skip_signature".to_owned(), Secret::new("true")));
    }
    let region = text(auth, &["region", "aws_region"]);
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    // It becomes a part of a host's name.
    if !region
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        return Err(invalid(
            "its `region` is not made of letters, digits and `-`",
        ));
    }
    Ok(S3Config {
        bucket,
        endpoint: text(auth, &["endpoint", "endpoint_url", "url"]),
        region: Some(region),
        credentials,
    })
}

/// A bucket of Google's as a credential reaches it.
pub(super) fn gcs(auth: Option<&Value>) -> Result<Endpoint, TaskError> {
    let auth = map(auth)?;
    let endpoint = text(auth, &["endpoint", "endpoint_url", "url"]);
    let key = [
        "service_account",
        "service_account_json",
        "key",
        "credentials",
    ];
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
            None => endpoint_of(&key)?,
        };
        return Ok(Endpoint {
            endpoint,
            identity: GcsIdentity::Key(Secret::new(key)),
        });
    }
    let identity = match (text(auth, &["access_token", "token"]), &endpoint) {
        (Some(token), _) => GcsIdentity::Token(Secret::new(token)),
        (None, Some(_)) => GcsIdentity::Anybody,
        (None, None) => {
            return Err(invalid(
                "it has neither `service_account` nor `access_token`",
            ));
        }
    };
    Ok(Endpoint { endpoint, identity })
}

/// Where a service account's key sends its requests, if not to Google: an endpoint like one that is written out.
fn endpoint_of(key: &str) -> Result<Option<String>, TaskError> {
    let key: Value =
        serde_json::from_str(key).map_err(|_| invalid("its `service_account` is not JSON"))?;
    match key.get("gcs_base_url") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(url)) => Ok(Some(url.clone())),
        Some(_) => Err(invalid("its `gcs_base_url` is no text")),
    }
}

fn map(auth: Option<&Value>) -> Result<&Map<String, Value>, TaskError> {
    match auth {
        Some(Value::Object(map)) => Ok(map),
        Some(Value::String(name)) => {
            let message = format!("the credential `{name}` was not resolved before the call");
            Err(TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message))
        }
        Some(_) => Err(invalid("it is no map")),
        None => Err(TaskError::new(
            ErrorKind::Auth,
            "AUTH_INVALID",
            "a bucket needs a `credential`: name one, or give `{access_key_id, secret_access_key, region}`; `{type: none}` asks as nobody",
        )),
    }
}

fn text(auth: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let found = keys
        .iter()
        .find_map(|key| auth.get(*key).and_then(Value::as_str));
    found.filter(|text| !text.is_empty()).map(str::to_owned)
}

fn invalid(problem: &str) -> TaskError {
    let message = format!("the credential cannot be used: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
