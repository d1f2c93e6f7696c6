//! Network configuration of tasks.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use reqwest::Certificate;

/// Network access of tasks.
#[derive(Debug, Clone)]
pub struct Network {
    /// Whether private and loopback addresses are allowed; metadata addresses never are.
    pub allow_private: bool,
    /// Targets that are allowed although they are private, or belong to NoETL itself.
    pub holes: Vec<Hole>,
    /// Addresses of NoETL's own server and store, which tasks cannot access.
    pub own: Vec<SocketAddr>,
    /// Trusted certificate authorities in addition to the system's.
    pub authorities: Authorities,
}

/// Allowlist entry: a host, all hosts below a domain, or an address block, on any port or on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    what: What,
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Host(String),
    Below(String),
    Block { address: IpAddr, prefix: u8 },
}

/// Text that is not a valid allowlist entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host, `*.domain`, an address or a block such as 10.0.0.0/8, each with or without `:port`"
)]
pub struct NotAHole(String);

/// CA certificates.
#[derive(Debug, Clone, Default)]
pub struct Authorities(pub(crate) Vec<Certificate>);

/// Text without certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no PEM certificates found")]
pub struct NotCertificates;

impl Default for Network {
    fn default() -> Self {
        Self {
            allow_private: true,
            holes: Vec::new(),
            own: Vec::new(),
            authorities: Authorities::default(),
        }
    }
}

impl Authorities {
    /// Reads PEM certificates.
    pub fn read(pem: &[u8]) -> Result<Self, NotCertificates> {
        match Certificate::from_pem_bundle(pem) {
            Ok(certificates) if !certificates.is_empty() => Ok(Self(certificates)),
            _ => Err(NotCertificates),
        }
    }
}

impl Hole {
    /// Whether the entry allows a host with this address and port.
    pub(crate) fn fits(&self, host: &str, address: IpAddr, port: Option<u16>) -> bool {
        let host = || host.trim_end_matches('.').to_ascii_lowercase();
        let fits = match &self.what {
            What::Host(name) => *name == host(),
            What::Below(domain) => host()
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.ends_with('.')),
            What::Block {
                address: block,
                prefix,
            } => is_within(address, *block, *prefix),
        };
        fits && (self.port.is_none() || self.port == port)
    }
}

impl FromStr for Hole {
    type Err = NotAHole;

    fn from_str(text: &str) -> Result<Self, NotAHole> {
        let not = || NotAHole(text.to_owned());
        let (what, port) = split_port(text.trim()).ok_or_else(not)?;
        let what = what_of(what).ok_or_else(not)?;
        Ok(Self { what, port })
    }
}

/// Splits a target and its port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((inside, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((inside, None)),
        };
    }
    match text.split_once(':') {
        Some((what, port)) if !port.contains(':') => Some((what, Some(port.parse().ok()?))),
        _ => Some((text, None)),
    }
}

fn what_of(text: &str) -> Option<What> {
    if let Some((address, prefix)) = text.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return (prefix <= bits).then_some(What::Block { address, prefix });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        return Some(What::Block { address, prefix });
    }
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_name = |name: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && name.chars().all(is_fine)
    };
    match name.strip_prefix("*.") {
        Some(domain) => is_name(domain).then(|| What::Below(domain.to_owned())),
        None => is_name(&name).then_some(What::Host(name)),
    }
}

fn is_within(address: IpAddr, block: IpAddr, prefix: u8) -> bool {
    match (address, block) {
        (IpAddr::V4(address), IpAddr::V4(block)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            address.to_bits() & mask == block.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(block)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            address.to_bits() & mask == block.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(hole: &str, host: &str, address: &str, port: u16) -> bool {
        let hole: Hole = hole.parse().unwrap();
        hole.fits(host, address.parse().unwrap(), Some(port))
    }

    #[test]
    fn a_hole_is_as_wide_as_it_says() {
        assert!(fits("10.0.0.0/8", "x", "10.1.2.3", 80));
        assert!(!fits("10.0.0.0/8", "x", "11.1.2.3", 80));
        assert!(fits("0.0.0.0/0", "x", "11.1.2.3", 80));
        assert!(fits("10.0.0.5", "x", "10.0.0.5", 80));
        assert!(!fits("10.0.0.5:81", "x", "10.0.0.5", 80));
        assert!(fits("fd00::/8", "x", "fd12::1", 80));
        assert!(fits("[::1]:80", "x", "::1", 80));
        assert!(!fits("[::1]:80", "x", "::1", 81));
        assert!(!fits("::/0", "x", "10.0.0.1", 80));
        assert!(fits("db.corp", "DB.corp.", "10.0.0.1", 80));
        assert!(fits("*.corp", "db.corp", "10.0.0.1", 80));
        assert!(!fits("*.corp", "corp", "10.0.0.1", 80));
        assert!(!fits("*.corp", "evilcorp", "10.0.0.1", 80));
        assert!(fits("db.corp:5432", "db.corp", "10.0.0.1", 5432));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in [
            "",
            "a b",
            "10.0.0.0/33",
            "x:port",
            "*",
            "[::1",
            "http://x",
            "::/129",
        ] {
            assert!(text.parse::<Hole>().is_err(), "{text}");
        }
    }
}
