//! Network access of the tasks of this process: its default, and the engine's own addresses.

use std::net::SocketAddr;
use std::time::Duration;

/// Timeout of a name lookup. A name that is not resolved in time is not protected.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Default network access of tasks.
#[derive(Debug, Clone)]
pub(crate) struct NetworkAccess {
    /// Whether private addresses are allowed (metadata addresses never are); true for local runs.
    pub(crate) allow_private: bool,
    /// Addresses of the server and the store, which tasks may not reach.
    pub(crate) protected: Vec<SocketAddr>,
}

impl Default for NetworkAccess {
    /// Access of a local run without a server.
    fn default() -> Self {
        Self {
            allow_private: true,
            protected: Vec::new(),
        }
    }
}

/// Resolves the addresses of URLs. A URL without a port gets the default port of its scheme.
pub(crate) async fn resolve_addresses(urls: impl IntoIterator<Item = &str>) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for host_port in urls.into_iter().flat_map(host_ports) {
        let looked_up = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host(host_port)).await;
        // A name that cannot be resolved has no address to protect.
        addresses.extend(looked_up.ok().and_then(Result::ok).into_iter().flatten());
    }
    addresses
}

/// Returns the hosts and ports of a URL, which may contain several, separated by commas.
fn host_ports(url: &str) -> Vec<String> {
    let (scheme, address) = url.split_once("://").unwrap_or(("", url));
    let port = match scheme {
        "postgres" | "postgresql" => 5432,
        "https" => 443,
        "nats" | "tls" => 4222,
        _ => 80,
    };
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let hosts = hosts.split(',').filter(|host| !host.is_empty());
    hosts
        .map(|host| {
            let after = host.rsplit(']').next().unwrap_or_default();
            if after.contains(':') {
                host.to_owned()
            } else {
                format!("{host}:{port}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_from_urls() {
        assert_eq!(
            host_ports("postgres://u:p@db:6000,other/noetl?sslmode=disable"),
            ["db:6000", "other:5432"]
        );
        assert_eq!(host_ports("https://noetl.corp/api"), ["noetl.corp:443"]);
        assert_eq!(host_ports("http://[::1]:8082"), ["[::1]:8082"]);
        assert_eq!(host_ports("http://[::1]"), ["[::1]:80"]);
        assert_eq!(host_ports("nats://a"), ["a:4222"]);
    }

    #[tokio::test]
    async fn addresses_are_resolved() {
        let addresses = resolve_addresses(["http://127.0.0.1:8082", "http://no-such-host.invalid"]).await;
        assert_eq!(addresses, ["127.0.0.1:8082".parse().unwrap()]);
    }
}
