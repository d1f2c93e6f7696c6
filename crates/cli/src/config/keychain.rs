//! Keychain settings: master keys, and the secret sources that playbooks may read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::{KeychainConfig, MasterKey, MasterKeys, VaultConfig};

use crate::cli_error::{CliError, Exit};
use crate::config::environment::Environment;
use crate::config::network::NetworkSettings;
use crate::config::store_url::is_store_url;
use crate::config::variables::{self, Variable};
use crate::network_access::NetworkAccess;
use crate::secret_fetcher::HttpToolFetcher;

/// Name of the master key file in a store directory.
pub(crate) const KEY_FILE: &str = "master.key";

/// How credentials are encrypted and resolved. `Debug` hides the content.
#[derive(Clone)]
pub(crate) struct KeychainSettings {
    pub(crate) config: KeychainConfig,
    network: NetworkSettings,
    /// Whether requests to token endpoints in private networks are always allowed.
    allows_private: bool,
}

impl std::fmt::Debug for KeychainSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl KeychainSettings {
    /// Reads the settings from the environment, for a store at this location.
    pub(super) fn from_environment(
        environment: &Environment,
        store: &Path,
        network: &NetworkSettings,
    ) -> Result<Self, CliError> {
        let is_url = is_store_url(store);
        let current = read_master_key(environment, variables::MASTER_KEY, variables::MASTER_KEY_FILE)?;
        let keys = match current {
            Some(current) => MasterKeys::Given {
                current,
                old: read_master_key(environment, variables::MASTER_KEY_OLD, variables::MASTER_KEY_OLD_FILE)?,
            },
            None if is_url => MasterKeys::Missing,
            None => MasterKeys::File(store.join(KEY_FILE)),
        };
        let secrets = environment.variables_with_prefix(variables::SECRETS);
        let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let allows_private = environment.get(variables::TOKEN_ENDPOINTS_PRIVATE) == Some("allow");
        // With a local store, endpoints may be on the same machine. A server must not expose its private network.
        let reached = network.network_config(!is_url || allows_private, Vec::new());
        Ok(Self {
            config: KeychainConfig {
                keys,
                env: secrets.collect(),
                secrets_dir: environment.get(variables::SECRETS_DIR).map(PathBuf::from),
                vault: vault_config(environment),
                fetcher: Some(Arc::new(HttpToolFetcher::new(reached))),
            },
            network: network.clone(),
            allows_private,
        })
    }

    /// Returns the settings for a server: it may only contact endpoints that its tasks may reach.
    pub(crate) fn server_config(&self, access: &NetworkAccess) -> KeychainConfig {
        let allow_private = access.allow_private || self.allows_private;
        let reached = self.network.network_config(allow_private, access.protected.clone());
        KeychainConfig {
            fetcher: Some(Arc::new(HttpToolFetcher::new(reached))),
            ..self.config.clone()
        }
    }
}

fn vault_config(environment: &Environment) -> Option<VaultConfig> {
    Some(VaultConfig {
        address: environment.get(variables::VAULT_ADDR)?.to_owned(),
        token: environment.get(variables::VAULT_TOKEN)?.to_owned(),
    })
}

/// Reads a key from the variable `key`, or from the file that the variable `file` names.
fn read_master_key(environment: &Environment, key: Variable, file: Variable) -> Result<Option<MasterKey>, CliError> {
    let (variable, text) = match (environment.get(key), environment.get(file)) {
        (Some(text), _) => (key, text.to_owned()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| CliError::read_error(path, &error))?;
            (file, text)
        }
        (None, None) => return Ok(None),
    };
    if let Some(key) = MasterKey::parse(&text) {
        Ok(Some(key))
    } else {
        let name = variable.name();
        let message = format!("invalid {name}: expected 32 bytes in base64 or hex");
        Err(CliError::new(Exit::Usage, "MASTER_KEY_INVALID", message)
            .help("create a key with `openssl rand -base64 32`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(store: &str, pairs: &[(&str, &str)]) -> Result<KeychainConfig, CliError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = Environment::from_variables(pairs.iter().map(owned));
        let network = NetworkSettings::default();
        KeychainSettings::from_environment(&environment, Path::new(store), &network).map(|keychain| keychain.config)
    }

    #[test]
    fn a_directory_generates_its_key_and_a_database_requires_one() {
        let here = load("dir", &[]).unwrap();
        assert!(matches!(here.keys, MasterKeys::File(file) if file.ends_with(KEY_FILE)));
        let there = load("postgres://db", &[]).unwrap();
        assert!(matches!(there.keys, MasterKeys::Missing));
        let key = "ab".repeat(32);
        let master_keys = load("postgres://db", &[("NOETL_MASTER_KEY", &key)]).unwrap();
        assert!(matches!(master_keys.keys, MasterKeys::Given { old: None, .. }));
    }

    #[test]
    fn an_invalid_key_is_reported_without_its_value() {
        let problem = load("dir", &[("NOETL_MASTER_KEY", "canary")]).err().unwrap();
        assert_eq!(problem.code, "MASTER_KEY_INVALID");
        assert!(!format!("{problem:?}").contains("canary"));
    }

    #[test]
    fn only_variables_with_the_prefix_are_readable() {
        let config = load("dir", &[("NOETL_SECRET_A", "1"), ("HOME", "2")]).unwrap();
        assert_eq!(config.env.keys().collect::<Vec<_>>(), ["NOETL_SECRET_A"]);
        assert!(config.vault.is_none());
    }
}
