//! The address of the database, and how to connect to it.
//!
//! Input: a URL in libpq's format. Output: the driver's configuration. `sslmode` and `sslrootcert` are parsed here,
//! because the driver supports only some of their values. The URL is a secret and never printed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::Error;

/// Maximum time to establish a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Maximum time that sent data stays unacknowledged before the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The URL of a database, which contains the password; its debug output is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// Wraps a URL; it is validated when the store is opened.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to open a store in Postgres.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The URL of the database.
    pub url: PostgresUrl,
    /// The URL at which other servers reach this one.
    pub address: Option<String>,
    /// Maximum number of pooled connections, besides one for heartbeats and one for LISTEN. A third of them is
    /// reserved for lists.
    pub pool_size: usize,
    /// Whether commits write rows to the outbox for a publisher.
    pub publishes: bool,
}

impl PostgresOptions {
    /// Options without an address for other servers and without a publisher.
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            address: None,
            pool_size: 12,
            publishes: false,
        }
    }
}

/// How the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsTrust {
    /// Any certificate is accepted: this only protects against passive eavesdropping.
    Any,
    /// The certificate must be issued by a trusted authority.
    Authority,
    /// The certificate must also match the host name.
    Full,
}

/// A parsed URL.
#[derive(Debug, Clone)]
pub(super) struct ConnectTarget {
    pub(super) config: Config,
    pub(super) trust: TlsTrust,
    pub(super) root_certificates: Option<PathBuf>,
}

impl ConnectTarget {
    pub(super) fn parse(url: &PostgresUrl) -> Result<Self, Error> {
        let text = url.0.as_str();
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(Error::Address(
                "it must start with `postgres://`".to_owned(),
            ));
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let mut mode = "prefer".to_owned();
        let mut roots = None;
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => value.clone_into(&mut mode),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(percent_decode(value))),
                _ => kept.push(pair),
            }
        }
        let plain = format!("{base}?{}", kept.join("&"));
        let mut config: Config = plain.parse().map_err(|_| {
            Error::Address(
                "it must have the form `postgres://user:password@host:port/database`".to_owned(),
            )
        })?;
        if config.get_hosts().is_empty() {
            return Err(Error::Address("it has no host".to_owned()));
        }
        let trust = parse_trust(&mode, &mut config)?;
        config
            .application_name("noetl")
            .connect_timeout(CONNECT_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(SILENCE_MAX)
            .keepalives_interval(SILENCE_MAX / 4)
            .keepalives_retries(3);
        Ok(Self {
            config,
            trust,
            root_certificates: roots,
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
        let database = self.config.get_dbname().or(self.config.get_user());
        match database {
            Some(database) => format!("{host}:{port}/{database}"),
            None => format!("{host}:{port}"),
        }
    }

    pub(super) fn user(&self) -> String {
        self.config.get_user().unwrap_or("(none)").to_owned()
    }
}

fn parse_trust(mode: &str, config: &mut Config) -> Result<TlsTrust, Error> {
    let (ssl, trust) = match mode {
        "disable" => (SslMode::Disable, TlsTrust::Any),
        "allow" | "prefer" => (SslMode::Prefer, TlsTrust::Any),
        "require" => (SslMode::Require, TlsTrust::Any),
        "verify-ca" => (SslMode::Require, TlsTrust::Authority),
        "verify-full" => (SslMode::Require, TlsTrust::Full),
        other => {
            return Err(Error::Address(format!(
                "unknown `sslmode={other}`; use disable, prefer, require, verify-ca or verify-full"
            )));
        }
    };
    config.ssl_mode(ssl);
    Ok(trust)
}

/// Decodes percent-encoding; invalid sequences stay unchanged.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_target(text: &str) -> Result<ConnectTarget, Error> {
        ConnectTarget::parse(&PostgresUrl::new(text))
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = PostgresUrl::new("postgres://me:hunter2@db/noetl");
        let options = PostgresOptions::new(url.clone());
        let shown = format!("{options:?} {:?}", ConnectTarget::parse(&url).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        let refused = parse_target("postgres://me:hunter2@db:port/noetl").unwrap_err();
        assert!(!format!("{refused:?} {refused}").contains("hunter2"));
    }

    #[test]
    fn the_place_names_host_port_and_database() {
        let found = parse_target("postgres://me:x@db.example:6000/noetl").unwrap();
        assert_eq!(found.location(), "db.example:6000/noetl");
        assert_eq!(
            parse_target("postgresql://me@db").unwrap().location(),
            "db:5432/me"
        );
    }

    #[test]
    fn each_sslmode_is_understood_and_others_are_named() {
        let found =
            parse_target("postgres://me@db/x?sslmode=verify-full&sslrootcert=%2Fca.pem").unwrap();
        assert_eq!(
            (found.trust, found.config.get_ssl_mode()),
            (TlsTrust::Full, SslMode::Require)
        );
        assert_eq!(found.root_certificates, Some(PathBuf::from("/ca.pem")));
        let plain = parse_target("postgres://me@db/x").unwrap();
        assert_eq!(
            (plain.trust, plain.config.get_ssl_mode()),
            (TlsTrust::Any, SslMode::Prefer)
        );
        let refused = parse_target("postgres://me@db/x?sslmode=maybe").unwrap_err();
        assert!(refused.to_string().contains("sslmode=maybe"), "{refused}");
    }

    #[test]
    fn what_is_no_postgres_url_is_refused() {
        assert!(matches!(
            parse_target("mysql://me@db/x"),
            Err(Error::Address(_))
        ));
        assert!(matches!(
            parse_target("postgres://"),
            Err(Error::Address(_))
        ));
    }
}
