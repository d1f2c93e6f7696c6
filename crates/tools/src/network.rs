//! Network configuration of tasks.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use reqwest::Certificate;

/// Network access of tasks.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// Whether private and loopback addresses are allowed; metadata addresses never are.
    pub allow_private: bool,
    /// Targets that are allowed although they are private, or belong to NoETL itself.
    pub allowed_targets: Vec<AllowedTarget>,
    /// Addresses of NoETL's own server and store, which tasks cannot access.
    pub protected_addresses: Vec<SocketAddr>,
    /// Trusted certificate authorities in addition to the system's.
    pub authorities: CertificateAuthorities,
}

/// Allowlist entry: a host, all hosts below a domain, or an address block, on any port or on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedTarget {
    pattern: TargetPattern,
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TargetPattern {
    Host(String),
    Subdomains(String),
    Block { address: IpAddr, prefix: u8 },
}

/// Text that is not a valid allowlist entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host, `*.domain`, an address or a block such as 10.0.0.0/8, each with or without `:port`")]
pub struct InvalidAllowedTarget(String);

/// CA certificates.
#[derive(Debug, Clone, Default)]
pub struct CertificateAuthorities(pub(crate) Vec<Certificate>);

/// Text without certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no PEM certificates found")]
pub struct InvalidCertificates;

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            allow_private: true,
            allowed_targets: Vec::new(),
            protected_addresses: Vec::new(),
            authorities: CertificateAuthorities::default(),
        }
    }
}

impl CertificateAuthorities {
    /// Reads PEM certificates.
    pub fn parse_pem(pem: &[u8]) -> Result<Self, InvalidCertificates> {
        match Certificate::from_pem_bundle(pem) {
            Ok(certificates) if !certificates.is_empty() => Ok(Self(certificates)),
            _ => Err(InvalidCertificates),
        }
    }
}

impl AllowedTarget {
    /// Whether the entry allows a host with this address and port.
    pub(crate) fn matches(&self, host: &str, address: IpAddr, port: Option<u16>) -> bool {
        let host = || host.trim_end_matches('.').to_ascii_lowercase();
        let fits = match &self.pattern {
            TargetPattern::Host(name) => *name == host(),
            TargetPattern::Subdomains(domain) => host()
                .strip_suffix(domain.as_str())
                .is_some_and(|tail| tail.ends_with('.')),
            TargetPattern::Block { address: block, prefix } => is_in_block(address, *block, *prefix),
        };
        fits && (self.port.is_none() || self.port == port)
    }
}

impl FromStr for AllowedTarget {
    type Err = InvalidAllowedTarget;

    fn from_str(text: &str) -> Result<Self, InvalidAllowedTarget> {
        let not = || InvalidAllowedTarget(text.to_owned());
        let (host, port) = split_port(text.trim()).ok_or_else(not)?;
        let host = parse_pattern(host).ok_or_else(not)?;
        Ok(Self { pattern: host, port })
    }
}

/// Splits a target and its port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(tail) = text.strip_prefix('[') {
        let (inside, after) = tail.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((inside, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((inside, None)),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port.parse().ok()?))),
        _ => Some((text, None)),
    }
}

fn parse_pattern(text: &str) -> Option<TargetPattern> {
    if let Some((address, prefix)) = text.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return (prefix <= bits).then_some(TargetPattern::Block { address, prefix });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        return Some(TargetPattern::Block { address, prefix });
    }
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_name = |name: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && name.chars().all(is_fine)
    };
    match name.strip_prefix("*.") {
        Some(domain) => is_name(domain).then(|| TargetPattern::Subdomains(domain.to_owned())),
        None => is_name(&name).then_some(TargetPattern::Host(name)),
    }
}

fn is_in_block(address: IpAddr, block: IpAddr, prefix: u8) -> bool {
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

    fn matches_target(target: &str, host: &str, address: &str, port: u16) -> bool {
        let target: AllowedTarget = target.parse().unwrap();
        target.matches(host, address.parse().unwrap(), Some(port))
    }

    #[test]
    fn an_allowlist_entry_matches_only_its_targets() {
        assert!(matches_target("10.0.0.0/8", "x", "10.1.2.3", 80));
        assert!(!matches_target("10.0.0.0/8", "x", "11.1.2.3", 80));
        assert!(matches_target("0.0.0.0/0", "x", "11.1.2.3", 80));
        assert!(matches_target("10.0.0.5", "x", "10.0.0.5", 80));
        assert!(!matches_target("10.0.0.5:81", "x", "10.0.0.5", 80));
        assert!(matches_target("fd00::/8", "x", "fd12::1", 80));
        assert!(matches_target("[::1]:80", "x", "::1", 80));
        assert!(!matches_target("[::1]:80", "x", "::1", 81));
        assert!(!matches_target("::/0", "x", "10.0.0.1", 80));
        assert!(matches_target("db.corp", "DB.corp.", "10.0.0.1", 80));
        assert!(matches_target("*.corp", "db.corp", "10.0.0.1", 80));
        assert!(!matches_target("*.corp", "corp", "10.0.0.1", 80));
        assert!(!matches_target("*.corp", "evilcorp", "10.0.0.1", 80));
        assert!(matches_target("db.corp:5432", "db.corp", "10.0.0.1", 5432));
    }

    #[test]
    fn invalid_allowlist_entries_are_rejected() {
        for text in ["", "a b", "10.0.0.0/33", "x:port", "*", "[::1", "http://x", "::/129"] {
            assert!(text.parse::<AllowedTarget>().is_err(), "{text}");
        }
    }
}
