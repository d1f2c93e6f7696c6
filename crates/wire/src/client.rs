//! Client of the HTTP API: one connection pool, several servers.
//!
//! Every call is safe to repeat, so if a server is unreachable, the client tries the next one.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::Problem;
use crate::download::Download;
use crate::transport::ByteStream;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of an ordinary call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for a stored result, which can have gigabytes.
const BODY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Request body: bytes or a stream.
pub use reqwest::Body as Upload;

/// Response whose body is read in chunks.
pub use reqwest::Response as HttpResponse;

/// Header of calls that one server forwards to another; a forwarded call is not forwarded again.
pub const FORWARDED_HEADER: &str = "x-noetl-forwarded";

/// Header with the secret of a worker's session.
pub const SESSION_HEADER: &str = "x-noetl-session";

/// Header with the version of the worker protocol that a client speaks.
pub const PROTOCOL_HEADER: &str = "x-noetl-protocol";

/// Version of the worker protocol. It increases when an older worker would misread a command or an event; a server
/// rewrites them for such a worker. Version 2 has loops over a range, whose items are not in `loop.started`.
pub const PROTOCOL_VERSION: u32 = 2;

/// Client of one or several servers.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    servers: std::sync::Arc<[String]>,
    /// Index of the server that responded last.
    current: std::sync::Arc<AtomicUsize>,
    token: Option<AccessToken>,
    session: Option<AccessToken>,
    forwarded: bool,
}

/// Bearer token; never printed.
#[derive(Clone)]
pub struct AccessToken(std::sync::Arc<str>);

impl AccessToken {
    /// Wraps a token; trims whitespace.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No server is reachable.
    #[error("cannot connect to {servers}")]
    Unreachable {
        /// Servers that were tried.
        servers: String,
        /// Error of the last one.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server returned an error.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The response has an unexpected form.
    #[error("cannot read the response of the server")]
    InvalidResponse(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An address is invalid.
    #[error("invalid server address `{0}`: expected http://HOST:PORT")]
    InvalidAddress(String),
}

impl CallError {
    /// Whether the error is transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::InvalidResponse(_) => true,
            Self::Problem(problem) => problem.status >= 500 || problem.status == 429,
            Self::InvalidAddress(_) => false,
        }
    }

    /// Returns the error code if the server returned an error.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }
}

impl Client {
    /// Creates a client of these servers, each as `http://host:port`.
    pub fn new(servers: &[String], token: Option<AccessToken>) -> Result<Self, CallError> {
        install_crypto();
        let mut addresses = Vec::with_capacity(servers.len());
        for server in servers {
            let address = server.trim().trim_end_matches('/');
            let url = reqwest::Url::parse(address).ok();
            let fits = url.is_some_and(|url| matches!(url.scheme(), "http" | "https"));
            if !fits {
                return Err(CallError::InvalidAddress(server.clone()));
            }
            addresses.push(address.to_owned());
        }
        if addresses.is_empty() {
            return Err(CallError::InvalidAddress(String::new()));
        }
        let protocol = HeaderMap::from_iter([(
            HeaderName::from_static(PROTOCOL_HEADER),
            HeaderValue::from(PROTOCOL_VERSION),
        )]);
        let http = reqwest::Client::builder()
            .default_headers(protocol)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(15))
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| CallError::InvalidResponse(Box::new(error)))?;
        Ok(Self {
            http,
            servers: addresses.into(),
            current: std::sync::Arc::default(),
            token,
            session: None,
            forwarded: false,
        })
    }

    /// Returns the addresses of the servers.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Returns a client for calls that one server forwards to another.
    #[must_use]
    pub fn with_forwarding(mut self) -> Self {
        self.forwarded = true;
        self
    }

    /// Returns a client that sends the secret of a worker's session.
    #[must_use]
    pub fn with_session(mut self, secret: AccessToken) -> Self {
        self.session = Some(secret);
        self
    }

    /// Sends a GET request.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let response = self.send_json(Method::GET, path, None::<&()>, CALL_TIMEOUT).await?;
        read_json(response).await
    }

    /// Sends a POST request.
    pub async fn post<B: Serialize + Sync, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CallError> {
        self.post_with_timeout(path, body, CALL_TIMEOUT).await
    }

    /// Sends a POST request with its own timeout.
    pub async fn post_with_timeout<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        patience: Duration,
    ) -> Result<T, CallError> {
        let response = self.send_json(Method::POST, path, Some(body), patience).await?;
        read_json(response).await
    }

    /// Sends a stream with PUT. A stream can be read only once, so a single server is tried; after a failure the next
    /// call uses the next server.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: Upload) -> Result<T, CallError> {
        let first = self.current.load(Ordering::Relaxed);
        let server = &self.servers[first % self.servers.len()];
        let request = self.http.put(format!("{server}{path}"));
        let mut request = request.timeout(BODY_TIMEOUT).body(body);
        if let Some(AccessToken(token)) = &self.token {
            request = request.bearer_auth(token);
        }
        match request.send().await {
            Ok(response) if response.status().is_success() => read_json(response).await,
            Ok(response) => Err(CallError::Problem(Box::new(read_problem(response).await))),
            Err(error) => {
                let next = (first + 1) % self.servers.len();
                self.current.store(next, Ordering::Relaxed);
                Err(CallError::Unreachable {
                    servers: server.clone(),
                    source: Box::new(error),
                })
            }
        }
    }

    /// Sends bytes with PUT to the first server that responds.
    pub async fn put_bytes<T: DeserializeOwned>(&self, path: &str, body: &bytes::Bytes) -> Result<T, CallError> {
        let make = |server: &str| {
            let request = self.http.put(format!("{server}{path}"));
            request.timeout(BODY_TIMEOUT).body(body.clone())
        };
        read_json(self.try_servers(make).await?).await
    }

    /// Sends a POST request and downloads the response, or a range of it, in chunks.
    pub async fn download<B: Serialize + Sync>(
        &self,
        path: &str,
        body: &B,
        range: Option<Range<u64>>,
    ) -> Result<Download, CallError> {
        let text = serde_json::to_vec(body).map_err(|error| CallError::InvalidResponse(Box::new(error)))?;
        let range = range.map(|range| format!("bytes={}-{}", range.start, range.end.max(1) - 1));
        let make = |server: &str| {
            let request = self.http.post(format!("{server}{path}")).timeout(BODY_TIMEOUT);
            let request = request.header("content-type", "application/json");
            let request = request.body(text.clone());
            match &range {
                Some(range) => request.header("range", range),
                None => request,
            }
        };
        Download::new(self.try_servers(make).await?)
    }

    /// Sends a POST request and returns a response of unknown length in chunks.
    pub async fn post_for_stream<B: Serialize + Sync>(&self, path: &str, body: &B) -> Result<ByteStream, CallError> {
        let response = self.send_json(Method::POST, path, Some(body), BODY_TIMEOUT).await?;
        Ok(Box::pin(response.bytes_stream().map_err(io::Error::other)))
    }

    /// Sends a GET request and returns the response for reading in chunks.
    pub async fn get_stream(&self, path: &str) -> Result<HttpResponse, CallError> {
        self.send_json(Method::GET, path, None::<&()>, BODY_TIMEOUT).await
    }

    /// Sends a DELETE request.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let response = self.send_json(Method::DELETE, path, None::<&()>, CALL_TIMEOUT).await?;
        read_json(response).await
    }

    /// Opens an event stream without a timeout.
    pub async fn open_event_stream(&self, path: &str, last_event_id: Option<u64>) -> Result<Response, CallError> {
        let last = last_event_id.map(|id| id.to_string());
        self.try_servers(|server| {
            let request = self.http.get(format!("{server}{path}"));
            let request = request.header("accept", "text/event-stream");
            match &last {
                Some(id) => request.header("last-event-id", id),
                None => request,
            }
        })
        .await
    }

    async fn send_json<B: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        patience: Duration,
    ) -> Result<Response, CallError> {
        let text = body.map(serde_json::to_vec).transpose();
        let text = text.map_err(|error| CallError::InvalidResponse(Box::new(error)))?;
        self.try_servers(|server| {
            let request = self
                .http
                .request(method.clone(), format!("{server}{path}"))
                .timeout(patience);
            match &text {
                Some(text) => request.header("content-type", "application/json").body(text.clone()),
                None => request,
            }
        })
        .await
    }

    /// Tries the servers in turn, starting with the one that responded last.
    async fn try_servers(&self, make: impl Fn(&str) -> RequestBuilder) -> Result<Response, CallError> {
        let first = self.current.load(Ordering::Relaxed);
        let count = self.servers.len();
        let mut last: Option<CallError> = None;
        for turn in 0..count {
            let index = (first + turn) % count;
            let mut request = make(&self.servers[index]);
            if let Some(AccessToken(token)) = &self.token {
                request = request.bearer_auth(token);
            }
            if let Some(AccessToken(secret)) = &self.session {
                request = request.header(SESSION_HEADER, &**secret);
            }
            if self.forwarded {
                request = request.header(FORWARDED_HEADER, "1");
            }
            match request.send().await {
                Ok(response) if response.status().is_success() => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok(response);
                }
                Ok(response) => {
                    let problem = read_problem(response).await;
                    let is_unavailable = matches!(problem.status, 502..=504);
                    last = Some(CallError::Problem(Box::new(problem)));
                    if !is_unavailable {
                        break;
                    }
                }
                Err(error) => {
                    let servers = self.servers.join(", ");
                    let source = Box::new(error);
                    last = Some(CallError::Unreachable { servers, source });
                }
            }
        }
        let last = last.expect("there is at least one server");
        if last.is_transient() && count > 1 {
            self.current.store((first + 1) % count, Ordering::Relaxed);
        }
        Err(last)
    }
}

async fn read_json<T: DeserializeOwned>(response: Response) -> Result<T, CallError> {
    if response.status() == StatusCode::NO_CONTENT {
        return serde_json::from_str("null").map_err(|error| CallError::InvalidResponse(Box::new(error)));
    }
    let bytes = response
        .bytes()
        .await
        .map_err(|error| CallError::InvalidResponse(Box::new(error)))?;
    serde_json::from_slice(&bytes).map_err(|error| CallError::InvalidResponse(Box::new(error)))
}

/// Parses the error of a response; if it has an unknown form, builds one from the status.
async fn read_problem(response: Response) -> Problem {
    let status = response.status();
    let bytes = response.bytes().await.unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| Problem {
        type_: "about:blank".to_owned(),
        title: status.canonical_reason().unwrap_or("Error").to_owned(),
        status: status.as_u16(),
        code: format!("HTTP_{}", status.as_u16()),
        detail: format!("the server returned {status}"),
        remedy: None,
        errors: Vec::new(),
    })
}

/// Installs the crypto provider for TLS, once per process; later calls do nothing.
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
