//! Parses a credential into connection settings.
//!
//! Input: `auth`, with the field names of credentials (`db_host` …) or of drivers (`host` …), or one `dsn`. Output: the
//! driver's configuration and the `sslmode`, which is parsed here because the driver supports only some of its values.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::call::Call;

/// Time without acknowledgment after which a connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Verification of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TlsTrust {
    /// None: the connection is encrypted, but the server is not authenticated.
    Any,
    /// A trusted authority must have signed it.
    Authority,
    /// It must also match the host name.
    Full,
}

/// Database and login; never prints its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresTarget {
    pub(super) config: Config,
    pub(super) trust: TlsTrust,
    pub(super) roots: Option<PathBuf>,
}

impl PostgresTarget {
    /// Target of a call's `auth`.
    pub(super) fn from_call(call: &Call) -> Result<Self, TaskError> {
        let auth = match call.field("auth") {
            Some(Value::Object(auth)) => auth,
            Some(Value::String(name)) => {
                let message = format!(
                    "credential `{name}` is not available to this task; create it with `noetl secret set {name}`, or list it in the `keychain` of the playbook"
                );
                return Err(TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message));
            }
            Some(other) => return Err(call.wrong_type_error("auth", "a map or a name", other)),
            None => {
                return Err(call.missing_key_error(
                    "auth",
                    "set it to the name of a credential, or to `{db_host, db_user, …}`",
                ));
            }
        };
        Self::from_auth(auth)
    }

    /// Target of a credential.
    pub(crate) fn from_auth(auth: &Map<String, Value>) -> Result<Self, TaskError> {
        let dsn = optional_auth_text(auth, &["dsn", "url", "uri", "connection_string", "db_dsn"])?;
        let (mut config, mut mode, mut roots) = match dsn {
            Some(dsn) => parse_dsn(&dsn)?,
            None => (Config::new(), None, None),
        };
        if let Some(host) = optional_auth_text(auth, &["db_host", "host", "hostname"])? {
            config.host(host);
        }
        if let Some(port) = optional_auth_text(auth, &["db_port", "port"])? {
            let port = port.trim().parse::<u16>();
            config.port(
                port.map_err(|_| {
                    invalid_target_error("`db_port` must be a number from 1 to 65535")
                })?,
            );
        }
        if let Some(user) = optional_auth_text(auth, &["db_user", "user", "username"])? {
            config.user(user);
        }
        if let Some(password) = optional_auth_text(auth, &["db_password", "password"])? {
            config.password(password);
        }
        if let Some(database) = optional_auth_text(auth, &["db_name", "database", "dbname", "db"])?
        {
            config.dbname(database);
        }
        mode = optional_auth_text(auth, &["sslmode", "ssl_mode", "db_sslmode"])?.or(mode);
        roots = optional_auth_text(auth, &["sslrootcert", "ssl_root_cert"])?.or(roots);
        if config.get_hosts().is_empty() {
            return Err(invalid_target_error("`db_host` is missing"));
        }
        if config.get_user().is_none() {
            return Err(invalid_target_error("`db_user` is missing"));
        }
        let trust = parse_trust(mode.as_deref().unwrap_or("prefer"), &mut config)?;
        config
            .application_name("noetl")
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(SILENCE_MAX)
            .keepalives_interval(SILENCE_MAX / 4)
            .keepalives_retries(3);
        Ok(Self {
            config,
            trust,
            roots: roots.map(PathBuf::from),
        })
    }

    /// Host, port and database, for messages; never the password.
    pub(super) fn location(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("{host}:{port}/{}", self.database())
    }

    /// Database name. Default: the user name.
    pub(super) fn database(&self) -> &str {
        let named = self.config.get_dbname().or(self.config.get_user());
        named.unwrap_or_default()
    }
}

impl fmt::Debug for PostgresTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.location()).finish()
    }
}

type DsnParts = (Config, Option<String>, Option<String>);

/// Parses a URL, or `host=…` words.
fn parse_dsn(dsn: &str) -> Result<DsnParts, TaskError> {
    let is_url = dsn.starts_with("postgres://") || dsn.starts_with("postgresql://");
    let (mut mode, mut roots) = (None, None);
    let plain = if is_url {
        let (base, query) = dsn.split_once('?').unwrap_or((dsn, ""));
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => roots = Some(value.replace("%2F", "/")),
                _ => kept.push(pair),
            }
        }
        format!("{base}?{}", kept.join("&"))
    } else {
        let mut kept = Vec::new();
        for word in dsn.split_whitespace() {
            match word.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => roots = Some(value.to_owned()),
                _ => kept.push(word),
            }
        }
        kept.join(" ")
    };
    // The driver's message may repeat the text, which contains the password.
    let config = plain.parse().map_err(|_| {
        invalid_target_error(
            "`dsn` must have the form `postgres://user:password@host:port/database`",
        )
    })?;
    Ok((config, mode, roots))
}

fn parse_trust(mode: &str, config: &mut Config) -> Result<TlsTrust, TaskError> {
    let (ssl, trust) = match mode {
        "disable" => (SslMode::Disable, TlsTrust::Any),
        "allow" | "prefer" => (SslMode::Prefer, TlsTrust::Any),
        "require" => (SslMode::Require, TlsTrust::Any),
        "verify-ca" => (SslMode::Require, TlsTrust::Authority),
        "verify-full" => (SslMode::Require, TlsTrust::Full),
        _ => {
            return Err(invalid_target_error(
                "unknown `sslmode`; use disable, prefer, require, verify-ca or verify-full",
            ));
        }
    };
    config.ssl_mode(ssl);
    Ok(trust)
}

/// First of these keys that is set, as text.
fn optional_auth_text(
    auth: &Map<String, Value>,
    keys: &[&str],
) -> Result<Option<String>, TaskError> {
    let found = keys.iter().find_map(|key| Some((key, auth.get(*key)?)));
    match found {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(text))) if text.is_empty() => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text.clone())),
        Some((_, Value::Number(number))) => Ok(Some(number.to_string())),
        Some((key, _)) => Err(invalid_target_error(&format!("`{key}` must be text"))),
    }
}

fn invalid_target_error(problem: &str) -> TaskError {
    let message = format!("invalid credential: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_target(auth: Value) -> Result<PostgresTarget, TaskError> {
        PostgresTarget::from_auth(auth.as_object().unwrap())
    }

    #[test]
    fn both_ways_of_naming_and_a_dsn_mean_the_same() {
        let credential = json!({"type": "postgres", "db_host": "db", "db_port": "6000", "db_user": "me",
            "db_password": "hunter2", "db_name": "shop"});
        let driver = json!({"host": "db", "port": 6000, "user": "me", "password": "hunter2",
            "database": "shop", "sslmode": "prefer"});
        let url = json!({"dsn": "postgres://me:hunter2@db:6000/shop?sslmode=prefer"});
        let words = json!({"dsn": "host=db port=6000 user=me password=hunter2 dbname=shop"});
        let first = parse_target(credential).unwrap();
        assert_eq!(first.location(), "db:6000/shop");
        for other in [driver, url, words] {
            assert!(parse_target(other).unwrap() == first);
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = parse_target(json!({"dsn": "postgres://me:hunter2@db/shop"})).unwrap();
        assert!(!format!("{shown:?}").contains("hunter2"));
        for broken in [
            "postgres://me:hunter2@db:port/x",
            "host=db password='hunter2",
        ] {
            let refused = parse_target(json!({"dsn": broken})).unwrap_err();
            assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
        }
    }

    #[test]
    fn each_sslmode_is_understood_and_others_are_refused() {
        let auth = |mode: &str| json!({"host": "db", "user": "me", "sslmode": mode});
        let full = parse_target(auth("verify-full")).unwrap();
        assert_eq!(
            (full.trust, full.config.get_ssl_mode()),
            (TlsTrust::Full, SslMode::Require)
        );
        let none = parse_target(json!({"host": "db", "user": "me"})).unwrap();
        assert_eq!(
            (none.trust, none.config.get_ssl_mode()),
            (TlsTrust::Any, SslMode::Prefer)
        );
        assert_eq!(
            parse_target(auth("maybe")).unwrap_err().code,
            "AUTH_INVALID"
        );
        assert_eq!(
            parse_target(json!({"user": "me"})).unwrap_err().code,
            "AUTH_INVALID"
        );
    }
}
