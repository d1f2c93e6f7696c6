//! Network access rules for requests.
//!
//! Every address is checked where it is used: a literal address in the URL of each hop, resolved addresses before the
//! connector gets them, which then connects to exactly those. Metadata and link-local addresses are always blocked.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::http::address::{AddressClass, classify, is_metadata_name};
use crate::network::{AllowedTarget, NetworkConfig};

/// A blocked address, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockedAddress {
    #[error("scheme `{0}` is not supported; use http or https")]
    Scheme(String),
    #[error("blocked: `{host}` resolves to {address}, {class}")]
    Address {
        host: String,
        address: IpAddr,
        class: &'static str,
    },
    #[error("blocked: `{0}` is a metadata service")]
    Metadata(String),
    #[error("blocked: `{host}` resolves to {address}, an address of the NoETL server or store")]
    EngineAddress { host: String, address: SocketAddr },
    #[error("the URL has no host")]
    NoHost,
}

/// The rules.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    /// Whether private and loopback addresses are allowed.
    pub(crate) allow_private: bool,
    /// Targets that are allowed although they are private, or belong to NoETL itself.
    pub(crate) allowed_targets: Vec<AllowedTarget>,
    /// Addresses of the server and the store of this process.
    pub(crate) protected_addresses: Vec<SocketAddr>,
}

/// Resolves a host name.
#[async_trait]
pub(crate) trait HostLookup: Send + Sync {
    async fn resolve_host(&self, host: &str) -> io::Result<Vec<SocketAddr>>;
}

/// Resolves names with the system's resolver.
pub(crate) struct SystemLookup;

/// Resolves names and rejects those with a blocked address.
pub(crate) struct GuardedResolver {
    pub(crate) guard: Arc<AddressGuard>,
    pub(crate) lookup: Arc<dyn HostLookup>,
    /// Port of the request, if a rule depends on it.
    pub(crate) port: Option<u16>,
}

impl AddressGuard {
    pub(crate) fn new(network: &NetworkConfig) -> Self {
        Self {
            allow_private: network.allow_private,
            allowed_targets: network.allowed_targets.clone(),
            protected_addresses: network.protected_addresses.clone(),
        }
    }

    /// Checks the scheme, the host name and a literal address.
    pub fn check_url(&self, url: &Url) -> Result<(), BlockedAddress> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BlockedAddress::Scheme(url.scheme().to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or(BlockedAddress::NoHost)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) => self.check_address(host, address, url.port_or_known_default()),
            Err(_) if is_metadata_name(host) => Err(BlockedAddress::Metadata(host.to_owned())),
            Err(_) => Ok(()),
        }
    }

    /// Port of a URL, if a rule depends on it.
    pub(crate) fn relevant_port(&self, url: &Url) -> Option<u16> {
        let port = url.port_or_known_default()?;
        let is_own = self.protected_addresses.iter().any(|own| own.port() == port);
        let is_hole = self.allowed_targets.iter().any(|hole| hole.port == Some(port));
        (is_own || is_hole).then_some(port)
    }

    /// Checks one address of a host.
    pub(crate) fn check_address(&self, host: &str, address: IpAddr, port: Option<u16>) -> Result<(), BlockedAddress> {
        let address = address.to_canonical();
        let class = classify(address);
        if let AddressClass::Forbidden(class) = class {
            return Err(blocked_address(host, address, class));
        }
        let mut holes = self.allowed_targets.iter();
        let mut holes_here = holes.clone().filter(|hole| hole.matches(host, address, port));
        if let Some(port) = port.filter(|port| self.is_protected(address, *port)) {
            // Only an entry with a port opens an address of NoETL itself.
            let is_open = holes.any(|hole| hole.port.is_some() && hole.matches(host, address, Some(port)));
            return if is_open {
                Ok(())
            } else {
                let (host, address) = (host.to_owned(), SocketAddr::new(address, port));
                Err(BlockedAddress::EngineAddress { host, address })
            };
        }
        match class {
            AddressClass::Private(class) if !self.allow_private && holes_here.next().is_none() => {
                Err(blocked_address(host, address, class))
            }
            _ => Ok(()),
        }
    }

    fn is_protected(&self, address: IpAddr, port: u16) -> bool {
        let mut protected = self
            .protected_addresses
            .iter()
            .filter(|protected| protected.port() == port);
        protected.any(|protected| {
            let protected = protected.ip().to_canonical();
            protected == address
                || (protected.is_unspecified() && is_local_address(address))
                || (address.is_unspecified() && is_local_address(protected))
        })
    }
}

fn blocked_address(host: &str, address: IpAddr, class: &'static str) -> BlockedAddress {
    BlockedAddress::Address {
        host: host.to_owned(),
        address,
        class,
    }
}

/// Only the machine's own addresses can be bound.
fn is_local_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[async_trait]
impl HostLookup for SystemLookup {
    async fn resolve_host(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.collect())
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup, port) = (self.guard.clone(), self.lookup.clone(), self.port);
        Box::pin(async move {
            let host = name.as_str();
            if is_metadata_name(host) {
                return Err(BlockedAddress::Metadata(host.to_owned()).into());
            }
            let addresses = lookup.resolve_host(host).await?;
            for address in &addresses {
                guard.check_address(host, address.ip(), port)?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
