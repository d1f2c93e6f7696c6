//! The files of the web client: every path that is no route of the API.
//!
//! They contain no data, so they need no token: the client signs in through the API.

use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::response::{IntoResponse, Response};
use web_client::{Client, File};

use crate::api::error::ApiError;

/// What the page may load: only its own files, and data of this server. `base` names the root of the client, which the
/// server computes.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     font-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
);
/// A file whose name contains its hash never changes.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Other files are requested again each time, so that a new version of the server takes effect.
const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

/// Returns a file of the client, its page for other paths that a browser navigates to, or a 404 error.
pub(crate) async fn file_or_not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if !method.is_safe() || uri.path().starts_with("/api/") {
        return path_not_found(&uri);
    }
    match web_client::client() {
        Ok(client) => client_response(client, &uri, &headers),
        Err(reason) if uri.path() == "/" => page(page_without_client(reason)),
        Err(_) => path_not_found(&uri),
    }
}

fn client_response(client: Client, uri: &Uri, headers: &HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path != "index.html"
        && let Some(file) = client.file(path)
    {
        return file_response(file, headers);
    }
    if path.is_empty() || accepts(headers, &ACCEPT, "text/html") {
        return page(client.page(uri.path()));
    }
    path_not_found(uri)
}

fn file_response(file: &'static File, headers: &HeaderMap) -> Response {
    let caching = if file.is_immutable() { IMMUTABLE } else { REVALIDATED };
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static(file.content_type())),
        (CACHE_CONTROL, caching),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if accepts(headers, &ACCEPT_ENCODING, "gzip") {
        let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        (fields, encoding, file.gzip()).into_response()
    } else {
        (fields, file.bytes()).into_response()
    }
}

fn page(text: String) -> Response {
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CACHE_CONTROL, REVALIDATED),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
    ];
    (fields, text).into_response()
}

/// The page of a server that was built without the client.
fn page_without_client(reason: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<title>NoETL</title>\n<h1>NoETL</h1>\n\
         <p>The server is running, but this binary has no web client: {reason}.</p>\n\
         <p>To get the web client, install Node.js 20 or newer with npm, and build <code>noetl</code> again.</p>\n\
         <p><a href=\"docs\">API documentation</a></p>\n</html>\n"
    )
}

/// Whether a header with a list of values contains one of them, possibly with parameters.
fn accepts(headers: &HeaderMap, name: &axum::http::HeaderName, value: &str) -> bool {
    let lists = headers.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    let mut entries = lists.flat_map(|list| list.split(','));
    entries.any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(value));
        is_named && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0"))
    })
}

fn path_not_found(uri: &Uri) -> Response {
    let detail = format!("no such endpoint: `{}`", uri.path());
    let error = ApiError::not_found("PATH_NOT_FOUND", detail).with_remedy("GET /docs lists all endpoints");
    error.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_value_is_found_in_a_list_unless_its_weight_is_zero() {
        let accepts_gzip = |list: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(list));
            accepts(&headers, &ACCEPT_ENCODING, "gzip")
        };
        assert!(accepts_gzip("gzip"));
        assert!(accepts_gzip("br, GZIP;q=0.8"));
        assert!(!accepts_gzip("br"));
        assert!(!accepts_gzip("gzip;q=0, br"));
        assert!(!accepts(&HeaderMap::new(), &ACCEPT_ENCODING, "gzip"));
    }

    #[test]
    fn a_server_without_the_client_says_how_to_get_it() {
        let page = page_without_client("`node` was not found during the build");
        assert!(page.contains("`node` was not found"), "{page}");
        assert!(page.contains("Node.js 20"), "{page}");
    }
}
