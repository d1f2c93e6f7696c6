//! The database to connect to.
//!
//! Input: a URL in libpq's format, or `host=…` words. Output: the driver's configuration. `sslmode` and `sslrootcert`
//! are parsed here, because the driver supports only some of their values. Passwords are never printed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The URL of a database, which contains the password; its debug output is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// Wraps a URL; it is validated when it is parsed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The URL, with its password.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a target is invalid. Contains no part of the text that may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The text is not a URL of a database.
    #[error("it must have the form `postgres://user:password@host:port/database`")]
    InvalidForm,
    /// No host is given.
    #[error("it has no host")]
    NoHost,
    /// The `sslmode` is unknown.
    #[error("unknown `sslmode={0}`; use disable, prefer, require, verify-ca or verify-full")]
    UnknownSslMode(String),
    /// The certificate authorities cannot be read.
    #[error("cannot read `sslrootcert` {}: {problem}", file.display())]
    UnreadableRoots {
        /// The file.
        file: PathBuf,
        /// Why it cannot be read.
        problem: String,
    },
    /// The certificate authorities cannot be used.
    #[error("cannot use the certificate authorities: {0}")]
    UnusableRoots(String),
    /// There are no certificate authorities.
    #[error("no certificate authority found; set a file with `sslrootcert=`")]
    NoRoots,
}

/// How the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsTrust {
    /// Any certificate is accepted: this only protects against passive eavesdropping.
    Any,
    /// The certificate must be issued by a trusted authority.
    Authority,
    /// The certificate must also match the host name.
    Full,
}

/// The parts of a target before they are checked; a caller may override some.
#[derive(Clone, Default)]
pub struct TargetParts {
    /// The driver's configuration.
    pub config: Config,
    /// The value of `sslmode`.
    pub sslmode: Option<String>,
    /// The value of `sslrootcert`.
    pub sslrootcert: Option<String>,
}

impl TargetParts {
    /// Parses a URL or `host=…` words.
    pub fn parse(dsn: &str) -> Result<Self, TargetError> {
        let is_url = dsn.starts_with("postgres://") || dsn.starts_with("postgresql://");
        let (base, query) = match dsn.split_once('?') {
            _ if !is_url => ("", dsn),
            Some((base, query)) => (base, query),
            None => (dsn, ""),
        };
        let (mut sslmode, mut sslrootcert) = (None, None);
        let mut driver_parts = Vec::new();
        let is_separator = |c: char| if is_url { c == '&' } else { c.is_whitespace() };
        for part in query.split(is_separator).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("sslmode", value)) => sslmode = Some(value.to_owned()),
                Some(("sslrootcert", value)) if is_url => sslrootcert = Some(percent_decode(value)),
                Some(("sslrootcert", value)) => sslrootcert = Some(value.to_owned()),
                _ => driver_parts.push(part),
            }
        }
        let driver_dsn = if is_url {
            format!("{base}?{}", driver_parts.join("&"))
        } else {
            driver_parts.join(" ")
        };
        // The driver's message may repeat the text, which contains the password.
        let config = driver_dsn.parse().map_err(|_| TargetError::InvalidForm)?;
        Ok(Self {
            config,
            sslmode,
            sslrootcert,
        })
    }

    /// Checks the parts. A connection without acknowledgments for `silence_max` counts as lost.
    pub fn into_target(self, silence_max: Duration) -> Result<ConnectTarget, TargetError> {
        let mut config = self.config;
        if config.get_hosts().is_empty() {
            return Err(TargetError::NoHost);
        }
        let trust = parse_trust(self.sslmode.as_deref().unwrap_or("prefer"), &mut config)?;
        config
            .application_name("noetl")
            .tcp_user_timeout(silence_max)
            .keepalives_idle(silence_max)
            .keepalives_interval(silence_max / 4)
            .keepalives_retries(3);
        Ok(ConnectTarget {
            config,
            trust,
            roots: self.sslrootcert.map(PathBuf::from),
        })
    }
}

/// Database, login and TLS settings; never prints its password.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectTarget {
    /// The driver's configuration.
    pub config: Config,
    /// How the server's certificate is verified.
    pub trust: TlsTrust,
    /// The file of the trusted authorities; `None` for those of the machine.
    pub roots: Option<PathBuf>,
}

impl ConnectTarget {
    /// Host, port and database, for messages; never the password.
    pub fn location(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        match self.database() {
            "" => format!("{host}:{port}"),
            database => format!("{host}:{port}/{database}"),
        }
    }

    /// The database name. Default: the user name.
    pub fn database(&self) -> &str {
        let db_name = self.config.get_dbname().or(self.config.get_user());
        db_name.unwrap_or_default()
    }

    /// The user, for messages.
    pub fn user(&self) -> String {
        self.config.get_user().unwrap_or("(none)").to_owned()
    }
}

impl fmt::Debug for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectTarget").field(&self.location()).finish()
    }
}

fn parse_trust(mode: &str, config: &mut Config) -> Result<TlsTrust, TargetError> {
    let (ssl, trust) = match mode {
        "disable" => (SslMode::Disable, TlsTrust::Any),
        "allow" | "prefer" => (SslMode::Prefer, TlsTrust::Any),
        "require" => (SslMode::Require, TlsTrust::Any),
        "verify-ca" => (SslMode::Require, TlsTrust::Authority),
        "verify-full" => (SslMode::Require, TlsTrust::Full),
        other => return Err(TargetError::UnknownSslMode(other.to_owned())),
    };
    config.ssl_mode(ssl);
    Ok(trust)
}

/// Decodes percent-encoding; invalid sequences stay unchanged.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let Some((first, after)) = remaining.split_first() {
        let code = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(*first));
        remaining = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_target(text: &str) -> Result<ConnectTarget, TargetError> {
        TargetParts::parse(text)?.into_target(Duration::from_secs(10))
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = PostgresUrl::new("postgres://me:hunter2@db/noetl");
        let output = format!("{url:?} {:?}", parse_target(url.reveal()).unwrap());
        assert!(!output.contains("hunter2"), "{output}");
        for broken in ["postgres://me:hunter2@db:port/x", "host=db password='hunter2"] {
            let refused = parse_target(broken).unwrap_err();
            assert!(!format!("{refused:?} {refused}").contains("hunter2"));
        }
    }

    #[test]
    fn the_location_names_host_port_and_database() {
        let target = parse_target("postgres://me:x@db.example:6000/noetl").unwrap();
        assert_eq!(target.location(), "db.example:6000/noetl");
        let target = parse_target("postgresql://me@db").unwrap();
        assert_eq!(target.location(), "db:5432/me");
    }

    #[test]
    fn a_url_and_words_mean_the_same() {
        let url = "postgres://me:pw@db:6000/shop?sslmode=verify-full&sslrootcert=%2Fca.pem";
        let words = "host=db port=6000 user=me password=pw dbname=shop sslmode=verify-full sslrootcert=/ca.pem";
        let target = parse_target(url).unwrap();
        assert!(target == parse_target(words).unwrap());
        assert_eq!(target.roots, Some(PathBuf::from("/ca.pem")));
        assert_eq!(
            (target.trust, target.config.get_ssl_mode()),
            (TlsTrust::Full, SslMode::Require)
        );
    }

    #[test]
    fn an_unknown_sslmode_is_named_and_the_default_is_prefer() {
        let plain = parse_target("postgres://me@db/x").unwrap();
        assert_eq!(
            (plain.trust, plain.config.get_ssl_mode()),
            (TlsTrust::Any, SslMode::Prefer)
        );
        let refused = parse_target("postgres://me@db/x?sslmode=maybe").unwrap_err();
        assert!(refused.to_string().contains("sslmode=maybe"), "{refused}");
    }

    #[test]
    fn a_target_without_a_host_is_refused() {
        let refused = parse_target("postgres://").unwrap_err();
        assert!(matches!(refused, TargetError::NoHost), "{refused}");
    }
}
