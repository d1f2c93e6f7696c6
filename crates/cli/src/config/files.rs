//! Finds and parses configuration files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::ColorWhen;
use crate::cli_error::{CliError, Exit};
use crate::config::store_url::is_store_url;

/// The settings of one file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    pub(super) store: Option<PathBuf>,
    pub(super) slots: Option<u32>,
    pub(super) color: Option<ColorWhen>,
    pub(super) python: Option<PathBuf>,
    pub(super) server: Option<String>,
    pub(super) retention: Option<String>,
    pub(super) sandbox: Option<String>,
    pub(super) tools: Option<PathBuf>,
    pub(super) oidc_issuer: Option<String>,
    pub(super) oidc_client_id: Option<String>,
    pub(super) oidc_client_secret_file: Option<PathBuf>,
    pub(super) oidc_client_auth: Option<String>,
    pub(super) oidc_roles: Option<BTreeMap<String, String>>,
    pub(super) oidc_role_claim: Option<String>,
    pub(super) oidc_scopes: Option<Vec<String>>,
    pub(super) oidc_name: Option<String>,
    pub(super) oidc_session: Option<String>,
    pub(super) public_url: Option<String>,
}

impl ConfigFile {
    /// Loads the file at `path`; empty if it does not exist. Resolves relative paths against the directory of the file.
    pub(super) fn load(path: &Path) -> Result<Self, CliError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(CliError::read_error(&path.display().to_string(), &error)),
        };
        let mut layer = Self::parse(&text, &path.display().to_string())?;
        let base = path.parent().unwrap_or(Path::new(""));
        layer.store = layer
            .store
            .map(|store| if is_store_url(&store) { store } else { base.join(store) });
        layer.tools = layer.tools.map(|tools| base.join(tools));
        layer.oidc_client_secret_file = layer.oidc_client_secret_file.map(|file| base.join(file));
        Ok(layer)
    }

    /// Parses the text of a file.
    pub(super) fn parse(text: &str, name: &str) -> Result<Self, CliError> {
        toml::from_str(text).map_err(|error| {
            let message = format!("invalid configuration in `{name}`: {}", error.to_string().trim_end());
            CliError::new(Exit::Usage, "CONFIG_INVALID", message)
                .help("valid keys: store, slots, color, python, server, retention, sandbox, tools, public_url, oidc_issuer and \
                       the other oidc_… keys; see docs/reference/configuration.md")
        })
    }
}

/// Returns the nearest `noetl.toml` in this directory or one of its parents.
pub(super) fn find_project_file(from: &Path) -> Option<PathBuf> {
    from.ancestors()
        .map(|dir| dir.join("noetl.toml"))
        .find(|file| file.is_file())
}
