//! Which addresses a request may reach.
//!
//! Every address is checked where it is used: literal ones in the URL of each hop, resolved ones as they are handed to
//! the connector, which then connects to exactly those. Metadata and link-local addresses are never reached.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::http::address::{Class, classify, is_metadata_name};
use crate::network::{Hole, Network};

/// An address that may not be reached, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Blocked {
    #[error("`{0}` is not an http or https address")]
    Scheme(String),
    #[error("`{host}` leads to {address}, which is {class}")]
    Address {
        host: String,
        address: IpAddr,
        class: &'static str,
    },
    #[error("`{0}` is the name of a metadata service")]
    Metadata(String),
    #[error("`{host}` leads to {address}, where the engine's own server or store is")]
    Own { host: String, address: SocketAddr },
    #[error("the address names no host")]
    NoHost,
}

/// What is allowed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    /// Whether private and loopback addresses may be reached.
    pub(crate) allow_private: bool,
    /// What may be reached although its address is private, or the engine's own.
    pub(crate) holes: Vec<Hole>,
    /// Where the server and the store of this process are.
    pub(crate) own: Vec<SocketAddr>,
}

/// Finds the addresses of a name.
#[async_trait]
pub(crate) trait Lookup: Send + Sync {
    async fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>>;
}

/// The system's way of finding addresses.
pub(crate) struct System;

/// Resolves names and hands on only addresses that may be reached.
pub(crate) struct GuardedResolver {
    pub(crate) guard: Arc<Guard>,
    pub(crate) lookup: Arc<dyn Lookup>,
    /// The port that is meant, where it matters.
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

    /// Checks the scheme, the name and a literal address.
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

    /// The port of an address, if any rule is about it.
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
            // Only a hole that names the port is about the engine itself.
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

/// Only addresses of the machine itself can be listened on.
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
