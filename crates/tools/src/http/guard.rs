//! Which addresses a request may reach.
//!
//! Every address is checked where it is used: literal ones in the URL of each hop, resolved ones as they are handed to
//! the connector, which then connects to exactly those. Metadata and link-local addresses are never reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

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
    #[error("the address names no host")]
    NoHost,
}

/// What is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    /// Whether private and loopback addresses may be reached.
    pub(crate) allow_private: bool,
}

/// Resolves names and hands on only addresses that may be reached.
pub(crate) struct GuardedResolver(pub(crate) Arc<Guard>);

enum Class {
    Public,
    Private(&'static str),
    Never(&'static str),
}

impl Guard {
    /// Checks the scheme and a literal address.
    pub(crate) fn check_url(self, url: &Url) -> Result<(), Blocked> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Blocked::Scheme(url.scheme().to_owned()));
        }
        let host = url.host_str().ok_or(Blocked::NoHost)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) => self.check(host, address),
            Err(_) => Ok(()),
        }
    }

    /// Checks one address of a host.
    pub(crate) fn check(self, host: &str, address: IpAddr) -> Result<(), Blocked> {
        let class = match classify(address) {
            Class::Public => return Ok(()),
            Class::Private(_) if self.allow_private => return Ok(()),
            Class::Private(class) | Class::Never(class) => class,
        };
        Err(Blocked::Address {
            host: host.to_owned(),
            address,
            class,
        })
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let addresses: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in &addresses {
                guard.check(&host, address.ip())?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    let [a, b, c, _] = address.octets();
    if address.is_link_local() || address == Ipv4Addr::new(100, 100, 100, 200) {
        Class::Never("a link-local or metadata address")
    } else if address.is_multicast() || address.is_broadcast() || a >= 240 {
        Class::Never("not the address of one host")
    } else if address.is_loopback() || a == 0 {
        Class::Private("a loopback address")
    } else if address.is_private()
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
    {
        Class::Private("a private address")
    } else {
        Class::Public
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    if let Some(embedded) = embedded_v4(address) {
        return classify_v4(embedded);
    }
    let first = address.segments()[0];
    if address == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254) || (first & 0xffc0) == 0xfe80 {
        Class::Never("a link-local or metadata address")
    } else if address.is_multicast() {
        Class::Never("not the address of one host")
    } else if address.is_loopback() || address.is_unspecified() {
        Class::Private("a loopback address")
    } else if (first & 0xfe00) == 0xfc00 || (first & 0xffc0) == 0xfec0 {
        Class::Private("a private address")
    } else {
        Class::Public
    }
}

/// The v4 address inside v4-mapped, v4-compatible, NAT64 and 6to4 forms.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, .., high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(url: &str, allow_private: bool) -> bool {
        let url = Url::parse(url).unwrap();
        Guard { allow_private }.check_url(&url).is_ok()
    }

    #[test]
    fn metadata_addresses_are_refused_in_every_spelling() {
        for url in [
            "http://169.254.169.254/latest",
            "http://2852039166/",
            "http://0xA9FEA9FE/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::]/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://100.100.100.200/",
        ] {
            assert!(!is_allowed(url, true), "{url}");
        }
    }

    #[test]
    fn private_addresses_depend_on_the_configuration() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.20.0.1/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[fd12::1]/",
        ] {
            assert!(is_allowed(url, true), "{url}");
            assert!(!is_allowed(url, false), "{url}");
        }
        assert!(is_allowed("http://93.184.216.34/", false));
        assert!(is_allowed("https://[2606:2800:220:1::1]/", false));
    }

    #[test]
    fn other_schemes_are_refused() {
        assert!(!is_allowed("file:///etc/passwd", true));
        assert!(!is_allowed("gopher://example.com/", true));
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_refused_address_is_refused() {
        let guard = Arc::new(Guard {
            allow_private: false,
        });
        let resolving = GuardedResolver(guard).resolve("localhost".parse().unwrap());
        let error = resolving.await.err().unwrap();
        assert!(error.downcast_ref::<Blocked>().is_some(), "{error}");
    }
}
