//! Contexts: named servers of the user, stored in `contexts.toml` next to the user's configuration file.
//!
//! Only `noetl context` writes the file, atomically. Only its owner can read it, because it can contain tokens.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli_error::{CliError, Exit};
use crate::config::address::TokenSource;
use crate::config::environment::Environment;

/// Context name that selects the local store.
pub(crate) const LOCAL_CONTEXT: &str = "local";

/// All contexts, and the current one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// Name of the current context; `None` selects the local store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// Contexts by name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, ServerContext>,
}

/// A named server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerContext {
    /// URLs of the server, or of several that share a store.
    pub(crate) servers: Vec<String>,
    /// The token itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The file that contains the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
}

impl std::fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("ServerContext")
            .field("servers", &self.servers)
            .field("token", &token)
            .field("token_file", &self.token_file)
            .finish()
    }
}

impl ServerContext {
    /// Returns the token to send to its servers.
    pub(crate) fn token_source(&self) -> Option<TokenSource> {
        let token = self.token.as_deref().map(wire::AccessToken::new);
        let file = self.token_file.clone().map(TokenSource::File);
        token.map(TokenSource::Token).or(file)
    }
}

impl Contexts {
    /// Loads the user's file; empty if it does not exist.
    pub(crate) fn load(environment: &Environment) -> Result<Self, CliError> {
        let Some(file) = contexts_file(environment) else {
            return Ok(Self::default());
        };
        let name = file.display().to_string();
        match std::fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).map_err(|error| {
                let reason = error.to_string();
                let message = format!("cannot parse `{name}`: {}", reason.trim_end());
                CliError::new(Exit::Usage, "CONFIG_INVALID", message)
                    .help("correct the file, or delete it and add contexts with `noetl context add`")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(CliError::read_error(&name, &error)),
        }
    }

    /// Returns the current context.
    pub(super) fn current(&self) -> Result<Option<(&str, &ServerContext)>, CliError> {
        let Some(name) = &self.current else {
            return Ok(None);
        };
        let context = self.contexts.get(name);
        context
            .map(|context| Some((name.as_str(), context)))
            .ok_or_else(|| self.unknown_context_error(name))
    }

    /// Returns the error for a context that does not exist.
    pub(crate) fn unknown_context_error(&self, name: &str) -> CliError {
        let message = format!("context `{name}` not found");
        let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let help = match &names[..] {
            [] => "add a context with `noetl context add NAME --server URL`".to_owned(),
            names => format!("available contexts: {LOCAL_CONTEXT}, {}", names.join(", ")),
        };
        CliError::new(Exit::NotFound, "CONTEXT_NOT_FOUND", message).help(help)
    }

    /// Writes the user's file atomically, readable only by its owner.
    pub(crate) fn save(&self, environment: &Environment) -> Result<PathBuf, CliError> {
        let Some(file) = contexts_file(environment) else {
            let message = "cannot store contexts: neither HOME nor XDG_CONFIG_HOME is set";
            return Err(CliError::new(Exit::Usage, "NO_HOME", message));
        };
        let text = toml::to_string(self).expect("plain data serializes to TOML");
        let result = write_private_file(&file, &text);
        result.map_err(|error| CliError::write_error(&file.display().to_string(), &error))?;
        Ok(file)
    }
}

fn contexts_file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_config_dir()?.join("contexts.toml"))
}

fn write_private_file(file: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new("")))?;
    let temp_file = file.with_extension(format!("{}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut out = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temp_file)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    std::fs::rename(&temp_file, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn environment(dir: &Path) -> Environment {
        let user_dir = dir.display().to_string();
        Environment::from_variables([("XDG_CONFIG_HOME".to_owned(), user_dir)])
    }

    #[test]
    fn a_saved_file_is_loaded_and_readable_only_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let environment = environment(dir.path());
        let context = ServerContext {
            servers: vec!["http://a:1".to_owned()],
            token: Some("secret".to_owned()),
            token_file: None,
        };
        let contexts = Contexts {
            current: Some("a".to_owned()),
            contexts: [("a".to_owned(), context)].into(),
        };
        assert!(!format!("{contexts:?}").contains("secret"));
        let file = contexts.save(&environment).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let loaded = Contexts::load(&environment).unwrap();
        let (name, context) = loaded.current().unwrap().unwrap();
        assert_eq!((name, context.token.as_deref()), ("a", Some("secret")));
    }

    #[test]
    fn an_unknown_context_is_reported_with_the_existing_ones() {
        let contexts = Contexts {
            current: Some("gone".to_owned()),
            contexts: BTreeMap::new(),
        };
        assert_eq!(contexts.current().unwrap_err().code, "CONTEXT_NOT_FOUND");
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("noetl");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("contexts.toml"), "nonsense = 1").unwrap();
        let problem = Contexts::load(&environment(dir.path())).unwrap_err();
        assert_eq!(problem.code, "CONFIG_INVALID");
    }
}
