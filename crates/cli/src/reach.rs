//! Where tasks of this process may go: how far by default, and where the engine itself is.

use std::net::SocketAddr;
use std::time::Duration;

/// A name that is not resolved by then is not protected.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

/// What tasks may reach by default.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Whether that is everything but metadata: so it is where one person works for himself.
    pub(crate) allow_private: bool,
    /// Where the server and the store are, which tasks do not reach.
    pub(crate) own: Vec<SocketAddr>,
}

impl Default for Reach {
    /// One person, without a server.
    fn default() -> Self {
        Self {
            allow_private: true,
            own: Vec::new(),
        }
    }
}

/// The addresses that URLs lead to. One without a port has the usual port of its scheme.
pub(crate) async fn addresses(urls: impl IntoIterator<Item = &str>) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for place in urls.into_iter().flat_map(places) {
        let looked_up = tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host(place)).await;
        // What cannot be resolved now has no address to protect.
        found.extend(looked_up.ok().and_then(Result::ok).into_iter().flatten());
    }
    found
}

/// The hosts and ports of a URL, which may name several with commas.
fn places(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let port = match scheme {
        "postgres" | "postgresql" => 5432,
        "https" => 443,
        "nats" | "tls" => 4222,
        _ => 80,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
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
    fn places_are_read_off_urls() {
        assert_eq!(
            places("postgres://u:p@db:6000,other/noetl?sslmode=disable"),
            ["db:6000", "other:5432"]
        );
        assert_eq!(places("https://noetl.corp/api"), ["noetl.corp:443"]);
        assert_eq!(places("http://[::1]:8082"), ["[::1]:8082"]);
        assert_eq!(places("http://[::1]"), ["[::1]:80"]);
        assert_eq!(places("nats://a"), ["a:4222"]);
    }

    #[tokio::test]
    async fn addresses_are_resolved() {
        let found = addresses(["http://127.0.0.1:8082", "http://no-such-host.invalid"]).await;
        assert_eq!(found, ["127.0.0.1:8082".parse().unwrap()]);
    }
}
