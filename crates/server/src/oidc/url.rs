//! URLs of the provider and of this server: which are accepted, and how parameters are added.

/// Maximum length of a URL in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// The parts of an `http` or `https` URL that decide whether it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl<'u> {
    /// Whether the scheme is `https`.
    pub(crate) is_encrypted: bool,
    /// Host and port.
    pub(crate) authority: &'u str,
    /// Path with its first slash; empty if there is none.
    pub(crate) path: &'u str,
    /// Whether it has a query.
    pub(crate) has_query: bool,
}

impl<'u> HttpUrl<'u> {
    /// Parses a URL without user, fragment, spaces and control characters.
    pub(crate) fn parse(text: &'u str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"\\\"<>#@".contains(c);
        if text.len() > URL_BYTES_MAX || !text.chars().all(is_plain) {
            return None;
        }
        let (scheme, remaining) = text.split_once("://")?;
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (location, has_query) = match remaining.split_once('?') {
            Some((location, _)) => (location, true),
            None => (remaining, false),
        };
        let (authority, path) = location.split_at(location.find('/').unwrap_or(location.len()));
        let url = Self {
            is_encrypted,
            authority,
            path,
            has_query,
        };
        (!url.host().is_empty()).then_some(url)
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &'u str {
        let authority = self.authority;
        if authority.starts_with('[') {
            return authority.find(']').map_or("", |end| &authority[..=end]);
        }
        authority.split(':').next().unwrap_or_default()
    }

    /// Whether requests stay secret on their way: they are encrypted, or do not leave this machine.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_encrypted || ["localhost", "127.0.0.1", "[::1]"].contains(&self.host())
    }
}

/// Adds parameters to a URL, which may have a query already.
pub(crate) fn with_parameters(url: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = url.to_owned();
    for (name, value) in parameters {
        text.push(if text.contains('?') { '&' } else { '?' });
        text.push_str(&format!("{name}={}", encode_component(value)));
    }
    text
}

/// Percent-encodes everything except letters, digits and `-._~`.
pub(crate) fn encode_component(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_its_parts() {
        let url = HttpUrl::parse("https://login.example:8443/realms/main?a=1").unwrap();
        assert!(url.is_encrypted && url.has_query && url.is_protected());
        assert_eq!((url.host(), url.path), ("login.example", "/realms/main"));
        assert_eq!(HttpUrl::parse("https://login.example").unwrap().path, "");
    }

    #[test]
    fn only_loopback_addresses_may_be_unencrypted() {
        for url in ["http://localhost:3000", "http://127.0.0.1/a", "http://[::1]:1"] {
            assert!(HttpUrl::parse(url).unwrap().is_protected(), "{url}");
        }
        for url in [
            "http://login.example",
            "http://127.0.0.1.example",
            "http://localhost.example",
        ] {
            assert!(!HttpUrl::parse(url).unwrap().is_protected(), "{url}");
        }
    }

    #[test]
    fn ambiguous_urls_are_rejected() {
        for url in [
            "",
            "login.example",
            "ftp://a",
            "https://",
            "https:///a",
            "https://user@a",
            "https://a/#b",
            "https://a\\b",
            "https://a b",
            "https://a\n",
            "https://[::1",
        ] {
            assert_eq!(HttpUrl::parse(url), None, "{url}");
        }
    }

    #[test]
    fn parameters_are_encoded() {
        let url = with_parameters("https://a/b?c=1", &[("d", "e&f=g h"), ("i", "ü")]);
        assert_eq!(url, "https://a/b?c=1&d=e%26f%3Dg%20h&i=%C3%BC");
    }
}
