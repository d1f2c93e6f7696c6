//! What every request passes before it is routed: the Host it names, the Origin it comes from, the headers it leaves with.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;
use crate::api::state::Api;

/// Answers of the API are data, never a page that another site may frame or run.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
];

/// Checks a request and dresses its answer.
pub(crate) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let checked = check(
        &api,
        request.method(),
        request.headers(),
        request.uri().host(),
    );
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    for (name, value) in HEADERS {
        let headers = response.headers_mut();
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check(
    api: &Api,
    method: &Method,
    headers: &HeaderMap,
    uri: Option<&str>,
) -> Result<(), ApiError> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or(uri).map(name).unwrap_or_default();
    if !api.hosts.allow(host) {
        let status = StatusCode::MISDIRECTED_REQUEST;
        let detail = format!("`{host}` is not a name of this server");
        return Err(ApiError::new(status, "HOST_UNKNOWN", detail)
            .remedy("call it by its address, or start it with --host NAME"));
    }
    // A page elsewhere can make a browser send a request here; only its Origin gives it away.
    let origin = headers.get(header::ORIGIN);
    if let Some(origin) = origin
        && !method.is_safe()
    {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        let same = origin.is_some_and(|(_, authority)| name(authority) == host);
        if !same {
            let detail = "the request comes from a page of another site";
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "ORIGIN_FOREIGN",
                detail,
            ));
        }
    }
    Ok(())
}

/// The host in `host:port`.
fn name(authority: &str) -> &str {
    let authority = authority.trim();
    if authority.starts_with('[') {
        return authority
            .find(']')
            .map_or(authority, |end| &authority[..=end]);
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

/// The names that this server answers to.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    names: Option<Vec<String>>,
}

impl Hosts {
    /// On loopback: its own names, and those given. Beyond it tokens guard, and any name will do unless some are given.
    pub(crate) fn new(is_loopback: bool, given: &[String]) -> Self {
        if !is_loopback && given.is_empty() {
            return Self { names: None };
        }
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let own = own.iter().filter(|_| is_loopback);
        let names = own.map(|name| (*name).to_owned());
        let given = given.iter().map(|name| name.to_ascii_lowercase());
        Self {
            names: Some(names.chain(given).collect()),
        }
    }

    fn allow(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.names
            .as_ref()
            .is_none_or(|names| names.contains(&host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_from_every_form_of_authority() {
        assert_eq!(name("localhost:8082"), "localhost");
        assert_eq!(name("[::1]:8082"), "[::1]");
        assert_eq!(name("example.org"), "example.org");
    }

    #[test]
    fn on_loopback_only_its_own_names_are_answered_to() {
        let hosts = Hosts::new(true, &["Box".to_owned()]);
        assert!(hosts.allow("localhost") && hosts.allow("127.0.0.1") && hosts.allow("[::1]"));
        assert!(hosts.allow("BOX"));
        assert!(!hosts.allow("evil.example") && !hosts.allow(""));
        assert!(Hosts::new(false, &[]).allow("anything"));
    }
}
