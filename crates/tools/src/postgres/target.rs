//! Parses a credential into a target.
//!
//! Input: `auth`, with the field names of credentials (`db_host` …) or of drivers (`host` …), or one `dsn`. Output: the
//! database to connect to.

use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use postgres::{ConnectTarget, TargetParts};
use serde_json::{Map, Value};

use crate::auth::unresolved_auth_error;
use crate::call::Call;

/// Time without acknowledgment after which a connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Target of a call's `auth`.
pub(super) fn target_from_call(call: &Call) -> Result<ConnectTarget, TaskError> {
    match call.field("auth") {
        Some(Value::Object(auth)) => target_from_auth(auth),
        Some(Value::String(name)) => Err(unresolved_auth_error(name)),
        Some(other) => Err(call.wrong_type_error("auth", "a map or a name", other)),
        None => Err(call.missing_key_error(
            "auth",
            "set it to the name of a credential, or to `{db_host, db_user, …}`",
        )),
    }
}

/// Target of a credential.
pub fn target_from_auth(auth: &Map<String, Value>) -> Result<ConnectTarget, TaskError> {
    let dsn = optional_auth_text(auth, &["dsn", "url", "uri", "connection_string", "db_dsn"])?;
    let mut parts = match dsn {
        Some(dsn) => TargetParts::parse(&dsn).map_err(|error| invalid_target_error(&error))?,
        None => TargetParts::default(),
    };
    let config = &mut parts.config;
    if let Some(host) = optional_auth_text(auth, &["db_host", "host", "hostname"])? {
        config.host(host);
    }
    if let Some(port) = optional_auth_text(auth, &["db_port", "port"])? {
        let port = port.trim().parse::<u16>();
        let invalid = |_| invalid_target_error(&"`db_port` must be a number from 1 to 65535");
        config.port(port.map_err(invalid)?);
    }
    if let Some(user) = optional_auth_text(auth, &["db_user", "user", "username"])? {
        config.user(user);
    }
    if let Some(password) = optional_auth_text(auth, &["db_password", "password"])? {
        config.password(password);
    }
    if let Some(database) = optional_auth_text(auth, &["db_name", "database", "dbname", "db"])? {
        config.dbname(database);
    }
    if config.get_hosts().is_empty() {
        return Err(invalid_target_error(&"`db_host` is missing"));
    }
    if config.get_user().is_none() {
        return Err(invalid_target_error(&"`db_user` is missing"));
    }
    let mode = optional_auth_text(auth, &["sslmode", "ssl_mode", "db_sslmode"])?;
    parts.sslmode = mode.or(parts.sslmode);
    let roots = optional_auth_text(auth, &["sslrootcert", "ssl_root_cert"])?;
    parts.sslrootcert = roots.or(parts.sslrootcert);
    let target = parts.into_target(SILENCE_MAX);
    target.map_err(|error| invalid_target_error(&error))
}

/// First of these keys that is set, as text.
fn optional_auth_text(auth: &Map<String, Value>, keys: &[&str]) -> Result<Option<String>, TaskError> {
    let entry = keys.iter().find_map(|key| Some((key, auth.get(*key)?)));
    match entry {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(text))) if text.is_empty() => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text.clone())),
        Some((_, Value::Number(number))) => Ok(Some(number.to_string())),
        Some((key, _)) => Err(invalid_target_error(&format!("`{key}` must be text"))),
    }
}

fn invalid_target_error(problem: &dyn std::fmt::Display) -> TaskError {
    let message = format!("invalid credential: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_target(auth: Value) -> Result<ConnectTarget, TaskError> {
        target_from_auth(auth.as_object().unwrap())
    }

    #[test]
    fn both_naming_styles_and_a_dsn_are_equivalent() {
        let credential = json!({"type": "postgres", "db_host": "db", "db_port": "6000", "db_user": "me",
            "db_password": "hunter2", "db_name": "shop"});
        let driver = json!({"host": "db", "port": 6000, "user": "me", "password": "hunter2",
            "database": "shop", "sslmode": "prefer"});
        let url = json!({"dsn": "postgres://me:hunter2@db:6000/shop?sslmode=prefer"});
        let keywords = json!({"dsn": "host=db port=6000 user=me password=hunter2 dbname=shop"});
        let first = parse_target(credential).unwrap();
        assert_eq!(first.location(), "db:6000/shop");
        for other in [driver, url, keywords] {
            assert!(parse_target(other).unwrap() == first);
        }
    }

    #[test]
    fn an_invalid_credential_is_refused_without_its_password() {
        let auth = |mode: &str| json!({"host": "db", "user": "me", "password": "hunter2", "sslmode": mode});
        assert!(parse_target(auth("verify-full")).is_ok());
        for invalid in [
            auth("maybe"),
            json!({"user": "me", "password": "hunter2"}),
            json!({"host": "db", "password": "hunter2"}),
            json!({"dsn": "postgres://me:hunter2@db:port/x"}),
        ] {
            let refused = parse_target(invalid).unwrap_err();
            assert_eq!(refused.code, "AUTH_INVALID");
            assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
        }
    }
}
