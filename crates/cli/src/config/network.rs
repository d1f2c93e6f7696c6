//! Network access of tasks, from the `NOETL_HTTP_…` variables.

use std::net::SocketAddr;
use std::path::Path;

use tools::{Authorities, Hole, Network};

use crate::config::environment::Environment;
use crate::problem::{Exit, Problem};

/// Largest accepted value of `NOETL_HTTP_PER_HOST`.
const PER_HOST_MAX: usize = 10_000;

/// Network settings from the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkSettings {
    /// Addresses that tasks may reach although they are private or belong to the engine.
    pub(crate) holes: Vec<Hole>,
    /// Certificate authorities that are trusted in addition to the machine's.
    pub(crate) authorities: Authorities,
    /// Maximum number of concurrent requests to one host.
    pub(crate) per_host_max: Option<usize>,
}

impl NetworkSettings {
    /// Builds the network rules of a process; `own` are the addresses of its server and store.
    pub(crate) fn reaching(&self, allow_private: bool, own: Vec<SocketAddr>) -> Network {
        Network {
            allow_private,
            own,
            holes: self.holes.clone(),
            authorities: self.authorities.clone(),
        }
    }
}

/// Reads the network settings.
pub(super) fn network(environment: &Environment) -> Result<NetworkSettings, Problem> {
    let holes = environment.get("NOETL_HTTP_ALLOW").unwrap_or_default();
    let holes = holes.split([',', ' ']).filter(|hole| !hole.is_empty());
    let holes = holes.map(|hole| {
        hole.parse()
            .map_err(|error: tools::NotAHole| invalid(format!("NOETL_HTTP_ALLOW: {error}")))
    });
    let per_host_max = environment.get("NOETL_HTTP_PER_HOST").map(|text| {
        let number = text.parse().ok();
        number
            .filter(|number| (1..=PER_HOST_MAX).contains(number))
            .ok_or_else(|| {
                let message = format!(
                    "invalid NOETL_HTTP_PER_HOST `{text}`: expected a number from 1 to {PER_HOST_MAX}"
                );
                invalid(message)
            })
    });
    let authorities = environment.get("NOETL_HTTP_CA").map(authorities);
    Ok(NetworkSettings {
        holes: holes.collect::<Result<_, _>>()?,
        authorities: authorities.transpose()?.unwrap_or_default(),
        per_host_max: per_host_max.transpose()?,
    })
}

fn authorities(file: &str) -> Result<Authorities, Problem> {
    let pem = std::fs::read(Path::new(file)).map_err(|error| Problem::unreadable(file, &error))?;
    Authorities::read(&pem)
        .map_err(|error| invalid(format!("invalid NOETL_HTTP_CA `{file}`: {error}")))
}

fn invalid(message: String) -> Problem {
    Problem::new(Exit::Usage, "CONFIG_INVALID", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<NetworkSettings, Problem> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        network(&Environment::of(pairs.iter().map(owned)))
    }

    #[test]
    fn holes_are_separated_by_commas_or_spaces() {
        let settings =
            read(&[("NOETL_HTTP_ALLOW", "10.0.0.0/8, db.corp:5432 *.internal")]).unwrap();
        assert_eq!(settings.holes.len(), 3);
        assert!(read(&[]).unwrap().holes.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let message = |pairs: &[(&str, &str)]| read(pairs).unwrap_err().message;
        assert!(message(&[("NOETL_HTTP_ALLOW", "10.0.0.0/99")]).contains("10.0.0.0/99"));
        assert!(message(&[("NOETL_HTTP_PER_HOST", "0")]).contains("NOETL_HTTP_PER_HOST"));
        assert!(message(&[("NOETL_HTTP_CA", "/nowhere/ca.pem")]).contains("/nowhere/ca.pem"));
        assert!(message(&[("NOETL_HTTP_CA", "/dev/null")]).contains("no PEM certificates"));
    }
}
