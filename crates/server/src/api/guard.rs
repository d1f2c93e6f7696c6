//! Checks every request before routing (Host and Origin headers), and adds security headers to every response.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;
use crate::api::listen::ClientPeer;
use crate::api::state::ApiState;

/// Security headers. Responses of the API are data; no other site may frame or run them.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
];

/// Checks a request and adds the security headers to its response.
pub(crate) async fn guard_request(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<ClientPeer>>();
    let activity = peer.map(|ConnectInfo(peer)| Arc::clone(&peer.activity));
    let is_framed = request.version() == Version::HTTP_2;
    let _active = activity.map(|activity| activity.start_request(is_framed));
    let authority = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let verdict = check_request(&api, request.method(), request.headers(), authority);
    let mut response = match verdict {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    for (name, value) in SECURITY_HEADERS {
        let headers = response.headers_mut();
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check_request(
    api: &ApiState,
    method: &Method,
    headers: &HeaderMap,
    authority: Option<&str>,
) -> Result<(), ApiError> {
    let header_text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let authority = header_text(header::HOST).or(authority).unwrap_or_default();
    let host = host_name(authority);
    if !api.hosts.is_allowed(host) {
        let status = StatusCode::MISDIRECTED_REQUEST;
        let detail = format!("Host header `{host}` is not allowed");
        return Err(ApiError::new(status, "HOST_UNKNOWN", detail)
            .with_remedy("use the server's address, or start the server with --host NAME"));
    }
    // A page of another site can make a browser send a request; only the Origin header reveals it.
    if headers.contains_key(header::ORIGIN) && !method.is_safe() {
        let own_origin = PageOrigin::new(scheme(api, headers), authority);
        let origin = header_text(header::ORIGIN).and_then(PageOrigin::parse);
        if origin.is_none_or(|origin| origin != own_origin) {
            let detail = "cross-origin request rejected";
            return Err(
                ApiError::new(StatusCode::FORBIDDEN, "ORIGIN_FOREIGN", detail).with_remedy(
                    "open the page at the scheme, host and port of this server; a proxy that terminates TLS must send `X-Forwarded-Proto: https`",
                ),
            );
        }
    }
    Ok(())
}

/// The scheme that the client used. A proxy forwards it; a page cannot make a browser send this header without a CORS
/// preflight request.
fn scheme<'a>(api: &ApiState, headers: &'a HeaderMap) -> &'a str {
    let forwarded = headers.get(FORWARDED_PROTO).and_then(|value| value.to_str().ok());
    match forwarded {
        _ if api.is_encrypted => "https",
        Some(scheme) => scheme.split(',').next().unwrap_or_default().trim(),
        None => "http",
    }
}

/// Whether the client uses TLS, up to this server or a proxy.
pub(crate) fn is_encrypted(api: &ApiState, headers: &HeaderMap) -> bool {
    scheme(api, headers).eq_ignore_ascii_case("https")
}

/// Header in which a proxy forwards the original scheme.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Origin of a page: scheme, host and port.
#[derive(Debug, PartialEq, Eq)]
struct PageOrigin {
    scheme: String,
    host: String,
    port: Option<String>,
}

impl PageOrigin {
    fn new(scheme: &str, authority: &str) -> Self {
        let scheme = scheme.to_ascii_lowercase();
        let host = host_name(authority);
        let port = authority.trim()[host.len()..].strip_prefix(':');
        let usual = match scheme.as_str() {
            "http" => Some("80"),
            "https" => Some("443"),
            _ => None,
        };
        Self {
            host: host.to_ascii_lowercase(),
            port: port.or(usual).map(str::to_owned),
            scheme,
        }
    }

    fn parse(header_text: &str) -> Option<Self> {
        let (scheme, authority) = header_text.split_once("://")?;
        Some(Self::new(scheme, authority))
    }
}

/// The host in `host:port`.
fn host_name(authority: &str) -> &str {
    let authority = authority.trim();
    if authority.starts_with('[') {
        return authority.find(']').map_or(authority, |end| &authority[..=end]);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Host names that this server accepts.
#[derive(Debug, Clone)]
pub(crate) struct AllowedHosts {
    names: Option<Vec<String>>,
}

impl AllowedHosts {
    /// On loopback: the loopback names and the configured ones. Otherwise, access tokens protect the server, so any
    /// name is accepted unless some are configured.
    pub(crate) fn new(is_loopback: bool, configured: &[String]) -> Self {
        if !is_loopback && configured.is_empty() {
            return Self { names: None };
        }
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let own = own.iter().filter(|_| is_loopback);
        let names = own.map(|name| (*name).to_owned());
        let configured = configured.iter().map(|name| name.to_ascii_lowercase());
        Self {
            names: Some(names.chain(configured).collect()),
        }
    }

    fn is_allowed(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.names.as_ref().is_none_or(|names| names.contains(&host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_from_every_form_of_authority() {
        assert_eq!(host_name("localhost:8082"), "localhost");
        assert_eq!(host_name("[::1]:8082"), "[::1]");
        assert_eq!(host_name("example.org"), "example.org");
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let loopback = PageOrigin::new("http", "localhost:8082");
        assert_eq!(PageOrigin::parse("http://LOCALHOST:8082"), Some(loopback));
        let loopback = PageOrigin::new("http", "localhost:8082");
        for other in ["http://localhost:3000", "http://localhost", "https://localhost:8082"] {
            assert_ne!(
                PageOrigin::parse(other),
                Some(PageOrigin::new("http", "localhost:8082")),
                "{other}"
            );
        }
        assert_eq!(PageOrigin::parse("null"), None);
        assert_eq!(loopback.port.as_deref(), Some("8082"));
        assert_eq!(
            PageOrigin::parse("https://a.example"),
            Some(PageOrigin::new("https", "a.example:443"))
        );
        assert_eq!(
            PageOrigin::parse("http://[::1]:80"),
            Some(PageOrigin::new("http", "[::1]"))
        );
    }

    #[test]
    fn on_loopback_only_its_own_names_are_accepted() {
        let hosts = AllowedHosts::new(true, &["Box".to_owned()]);
        assert!(hosts.is_allowed("localhost") && hosts.is_allowed("127.0.0.1") && hosts.is_allowed("[::1]"));
        assert!(hosts.is_allowed("BOX"));
        assert!(!hosts.is_allowed("evil.example") && !hosts.is_allowed(""));
        assert!(AllowedHosts::new(false, &[]).is_allowed("anything"));
    }
}
