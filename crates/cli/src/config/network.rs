//! Network access of tasks, from the `NOETL_HTTP_…` variables.

use std::net::SocketAddr;
use std::path::Path;

use tools::{AllowedTarget, CertificateAuthorities, NetworkConfig};

use crate::cli_error::{CliError, Exit};
use crate::config::environment::Environment;
use crate::config::variables;

/// Largest accepted value of `NOETL_HTTP_PER_HOST`.
const PER_HOST_MAX: usize = 10_000;

/// Network settings from the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkSettings {
    /// Addresses that tasks may reach although they are private or belong to the engine.
    pub(crate) allowed_targets: Vec<AllowedTarget>,
    /// Certificate authorities that are trusted in addition to the machine's.
    pub(crate) authorities: CertificateAuthorities,
    /// Maximum number of concurrent requests to one host.
    pub(crate) per_host_max: Option<usize>,
}

impl NetworkSettings {
    /// Builds the network rules of a process; `protected` are the addresses of its server and store.
    pub(crate) fn network_config(&self, allow_private: bool, protected: Vec<SocketAddr>) -> NetworkConfig {
        NetworkConfig {
            allow_private,
            protected_addresses: protected,
            allowed_targets: self.allowed_targets.clone(),
            authorities: self.authorities.clone(),
        }
    }
}

/// Reads the network settings.
pub(super) fn read_network_settings(environment: &Environment) -> Result<NetworkSettings, CliError> {
    let holes = environment.get(variables::HTTP_ALLOW).unwrap_or_default();
    let holes = holes.split([',', ' ']).filter(|hole| !hole.is_empty());
    let holes = holes.map(|hole| {
        hole.parse()
            .map_err(|error: tools::InvalidAllowedTarget| network_setting_error(format!("NOETL_HTTP_ALLOW: {error}")))
    });
    let per_host_max = environment.get(variables::HTTP_PER_HOST).map(|text| {
        let number = text.parse().ok();
        number
            .filter(|number| (1..=PER_HOST_MAX).contains(number))
            .ok_or_else(|| {
                let message =
                    format!("invalid NOETL_HTTP_PER_HOST `{text}`: expected a number from 1 to {PER_HOST_MAX}");
                network_setting_error(message)
            })
    });
    let authorities = environment.get(variables::HTTP_CA).map(load_authorities);
    Ok(NetworkSettings {
        allowed_targets: holes.collect::<Result<_, _>>()?,
        authorities: authorities.transpose()?.unwrap_or_default(),
        per_host_max: per_host_max.transpose()?,
    })
}

fn load_authorities(file: &str) -> Result<CertificateAuthorities, CliError> {
    let pem = std::fs::read(Path::new(file)).map_err(|error| CliError::read_error(file, &error))?;
    CertificateAuthorities::parse_pem(&pem)
        .map_err(|error| network_setting_error(format!("invalid NOETL_HTTP_CA `{file}`: {error}")))
}

fn network_setting_error(message: String) -> CliError {
    CliError::new(Exit::Usage, "CONFIG_INVALID", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<NetworkSettings, CliError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read_network_settings(&Environment::from_variables(pairs.iter().map(owned)))
    }

    #[test]
    fn allowlist_entries_are_separated_by_commas_or_spaces() {
        let settings = read(&[("NOETL_HTTP_ALLOW", "10.0.0.0/8, db.corp:5432 *.internal")]).unwrap();
        assert_eq!(settings.allowed_targets.len(), 3);
        assert!(read(&[]).unwrap().allowed_targets.is_empty());
    }

    #[test]
    fn unreadable_files_are_reported() {
        let message = |pairs: &[(&str, &str)]| read(pairs).unwrap_err().message;
        assert!(message(&[("NOETL_HTTP_ALLOW", "10.0.0.0/99")]).contains("10.0.0.0/99"));
        assert!(message(&[("NOETL_HTTP_PER_HOST", "0")]).contains("NOETL_HTTP_PER_HOST"));
        assert!(message(&[("NOETL_HTTP_CA", "/nowhere/ca.pem")]).contains("/nowhere/ca.pem"));
        assert!(message(&[("NOETL_HTTP_CA", "/dev/null")]).contains("no PEM certificates"));
    }
}
