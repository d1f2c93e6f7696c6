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

use crate::http::address::{Class, classify, is_metadata_name};
use crate::network::{Hole, Network};

/// A blocked address, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Blocked {
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
    Own { host: String, address: SocketAddr },
    #[error("the URL has no host")]
    NoHost,
}

/// The rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    /// Whether private and loopback addresses are allowed.
    pub(crate) allow_private: bool,
    /// Targets that are allowed although they are private, or belong to NoETL itself.
    pub(crate) holes: Vec<Hole>,
    /// Addresses of the server and the store of this process.
    pub(crate) own: Vec<SocketAddr>,
}

/// Resolves a host name.
#[async_trait]
pub(crate) trait Lookup: Send + Sync {
    async fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>>;
}

/// Resolves names with the system's resolver.
pub(crate) struct System;

/// Resolves names and rejects those with a blocked address.
pub(crate) struct GuardedResolver {
    pub(crate) guard: Arc<Guard>,
    pub(crate) lookup: Arc<dyn Lookup>,
    /// Port of the request, if a rule depends on it.
    pub(crate) port: Option<u16>,
}

impl Guard {
    pub(crate) fn new(network: &Network) -> Self {
        Self {
            allow_private: network.allow_private,
            holes: network.holes.clone(),
            own: network.own.clone(),
        }
    }

    /// Checks the scheme, the host name and a literal address.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Blocked::Scheme(url.scheme().to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or(Blocked::NoHost)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) => self.check(host, address, url.port_or_known_default()),
            Err(_) if is_metadata_name(host) => Err(Blocked::Metadata(host.to_owned())),
            Err(_) => Ok(()),
        }
    }

    /// Port of a URL, if a rule depends on it.
    pub(crate) fn port_that_matters(&self, url: &Url) -> Option<u16> {
        let port = url.port_or_known_default()?;
        let is_own = self.own.iter().any(|own| own.port() == port);
        let is_hole = self.holes.iter().any(|hole| hole.port == Some(port));
        (is_own || is_hole).then_some(port)
    }

    /// Checks one address of a host.
    pub(crate) fn check(
        &self,
        host: &str,
        address: IpAddr,
        port: Option<u16>,
    ) -> Result<(), Blocked> {
        let address = address.to_canonical();
        let class = classify(address);
        if let Class::Never(class) = class {
            return Err(blocked(host, address, class));
        }
        let mut holes = self.holes.iter();
        let mut holes_here = holes.clone().filter(|hole| hole.fits(host, address, port));
        if let Some(port) = port.filter(|port| self.is_own(address, *port)) {
            // Only an entry with a port opens an address of NoETL itself.
            let is_open =
                holes.any(|hole| hole.port.is_some() && hole.fits(host, address, Some(port)));
            return if is_open {
                Ok(())
            } else {
                let (host, address) = (host.to_owned(), SocketAddr::new(address, port));
                Err(Blocked::Own { host, address })
            };
        }
        match class {
            Class::Private(class) if !self.allow_private && holes_here.next().is_none() => {
                Err(blocked(host, address, class))
            }
            _ => Ok(()),
        }
    }

    fn is_own(&self, address: IpAddr, port: u16) -> bool {
        let mut own = self.own.iter().filter(|own| own.port() == port);
        own.any(|own| {
            let own = own.ip().to_canonical();
            own == address
                || (own.is_unspecified() && is_of_this_machine(address))
                || (address.is_unspecified() && is_of_this_machine(own))
        })
    }
}

fn blocked(host: &str, address: IpAddr, class: &'static str) -> Blocked {
    Blocked::Address {
        host: host.to_owned(),
        address,
        class,
    }
}

/// Only the machine's own addresses can be bound.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[async_trait]
impl Lookup for System {
    async fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.collect())
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup, port) = (self.guard.clone(), self.lookup.clone(), self.port);
        Box::pin(async move {
            let host = name.as_str();
            if is_metadata_name(host) {
                return Err(Blocked::Metadata(host.to_owned()).into());
            }
            let addresses = lookup.look_up(host).await?;
            for address in &addresses {
                guard.check(host, address.ip(), port)?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
