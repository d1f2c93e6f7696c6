//! HTTP clients with connection pools, one per connection setting. All requests of tools use them.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response, Url, redirect};
use tokio_util::sync::CancellationToken;

use crate::call::{cancelled_error, timeout_error};
use crate::certificates::trust;
use crate::exhaustion::{exhausted_error, find_connect_shortage, find_shortage};
use crate::http::guard::{AddressGuard, BlockedAddress, GuardedResolver, HostLookup, SystemLookup};
use crate::http::host_limiter::{HostLimiter, HostPermit};
use crate::http::oauth::OauthTokenCache;
use crate::http::request::HttpRequest;
use crate::http::{receive, response};
use crate::network::{CertificateAuthorities, NetworkConfig};
use crate::registry::HttpLimits;

/// Settings of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectOptions {
    pub connect_timeout: Duration,
    pub verify_ssl: bool,
}

/// Time limits for a server.
#[derive(Debug, Clone, Copy)]
pub struct PeerTimeouts {
    pub connect_options: ConnectOptions,
    pub read_timeout: Option<Duration>,
}

/// Connect timeout for buckets.
const BUCKET_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A response whose body is not read yet. It holds the host permit until it is dropped.
pub struct PendingResponse {
    pub response: Response,
    pub permit: HostPermit,
}

/// HTTP clients of a worker.
pub struct HttpClients {
    pub guard: Arc<AddressGuard>,
    pub limits: HttpLimits,
    pub(crate) tokens: OauthTokenCache,
    lookup: Arc<dyn HostLookup>,
    authorities: CertificateAuthorities,
    host_limiter: HostLimiter,
    /// The port is part of the key if a rule depends on it, because a resolver does not get the port.
    by_options: Mutex<HashMap<(ConnectOptions, Option<u16>), Client>>,
}

impl HttpClients {
    pub fn new(limits: HttpLimits, network: &NetworkConfig) -> Self {
        Self {
            guard: Arc::new(AddressGuard::new(network)),
            limits,
            tokens: OauthTokenCache::default(),
            lookup: Arc::new(SystemLookup),
            authorities: network.authorities.clone(),
            host_limiter: HostLimiter::new(limits.per_host_max),
            by_options: Mutex::default(),
        }
    }

    /// Replaces the resolver.
    #[cfg(test)]
    pub(crate) fn with_lookup(mut self, lookup: Arc<dyn HostLookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// Time limits of calls that do not set them.
    pub fn default_timeouts(&self) -> PeerTimeouts {
        PeerTimeouts {
            connect_options: ConnectOptions {
                connect_timeout: self.limits.connect,
                verify_ssl: true,
            },
            read_timeout: None,
        }
    }

    /// Sends one request to an allowed address, without following redirects.
    pub async fn send(&self, request: &HttpRequest, timeouts: PeerTimeouts) -> Result<PendingResponse, TaskError> {
        let checked = self.guard.check_url(&request.url);
        checked.map_err(|error| blocked_error(&error))?;
        let permit = self.host_limiter.acquire(&request.url).await;
        let client = self.client(timeouts.connect_options, self.guard.relevant_port(&request.url))?;
        let mut builder = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let result = match timeouts.read_timeout {
            None => builder.send().await,
            Some(limit) => {
                let total_timeout = timeouts.connect_options.connect_timeout + limit;
                tokio::time::timeout(total_timeout, builder.send())
                    .await
                    .map_err(|_| timeout_error(limit).with_detail("phase", "read"))?
            }
        };
        let response = result.map_err(|error| classify_error(&error))?;
        self.check_headers(response.headers())?;
        Ok(PendingResponse { response, permit })
    }

    /// Downloads the text of a script.
    pub(crate) async fn fetch_text(
        &self,
        url: &str,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<String, TaskError> {
        let parsed = Url::parse(url).map_err(|error| {
            let message = format!("`{url}` is not a URL: {error}");
            TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
        })?;
        let request = HttpRequest::new_internal(Method::GET, parsed);
        let fetch = async {
            let pending = self.send(&request, self.default_timeouts()).await?;
            let status = pending.response.status();
            if !status.is_success() {
                let code = format!("HTTP_{}", status.as_u16());
                let message = format!("`{url}` returned {status}");
                return Err(TaskError::new(response::error_kind(status), code, message));
            }
            let body = receive::read_bytes(pending.response, self.limits.memory_bytes_max).await?;
            Ok(String::from_utf8_lossy(&body).into_owned())
        };
        tokio::select! {
            text = fetch => text,
            () = stop.cancelled() => Err(cancelled_error()),
            () = tokio::time::sleep(limit) => Err(timeout_error(limit)),
        }
    }

    /// Returns the client for these options; creates it on first use.
    fn client(&self, options: ConnectOptions, port: Option<u16>) -> Result<Client, TaskError> {
        let mut clients = self.by_options.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(options, port)) {
            return Ok(client.clone());
        }
        let client = self.build_client(options, port)?;
        clients.insert((options, port), client.clone());
        Ok(client)
    }

    fn build_client(&self, options: ConnectOptions, port: Option<u16>) -> Result<Client, TaskError> {
        install_provider();
        let builder = trust(Client::builder(), &self.authorities.0);
        let built = builder
            .map_err(|error| exhausted_error(&error))?
            .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .tls_danger_accept_invalid_certs(!options.verify_ssl)
            .redirect(redirect::Policy::none())
            // A proxy would connect to addresses that are not checked here.
            .no_proxy()
            .http2_max_header_list_size(self.limits.header_bytes_max)
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(32)
            .dns_resolver(Arc::new(GuardedResolver {
                guard: self.guard.clone(),
                lookup: self.lookup.clone(),
                port,
            }))
            .build();
        built.map_err(|error| {
            let message = format!("cannot create the HTTP client: {}", error_chain(&error));
            or_shortage(TaskError::new(ErrorKind::Unknown, "HTTP_CLIENT", message))
        })
    }

    fn check_headers(&self, headers: &HeaderMap) -> Result<(), TaskError> {
        let size: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        if size <= self.limits.header_bytes_max as usize {
            return Ok(());
        }
        let message = format!("the response has {size} bytes of headers");
        Err(TaskError::new(ErrorKind::Schema, "HTTP_HEADERS_TOO_LARGE", message))
    }
}

/// Client for a bucket: follows no redirects, uses no proxy, and connects only to addresses that `guard` allows.
pub(crate) fn guarded_client(
    guard: &Arc<AddressGuard>,
    endpoint: Option<&Url>,
    response_timeout: Duration,
) -> Result<Client, TaskError> {
    install_provider();
    let built = trust(Client::builder(), &[])
        .map_err(|error| exhausted_error(&error))?
        .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(BUCKET_CONNECT_TIMEOUT.min(response_timeout))
        .read_timeout(response_timeout)
        .https_only(endpoint.is_none_or(|endpoint| endpoint.scheme() == "https"))
        .redirect(redirect::Policy::none())
        .no_proxy()
        // Compression would hide the size of an object.
        .no_gzip()
        .dns_resolver(Arc::new(GuardedResolver {
            guard: guard.clone(),
            lookup: Arc::new(SystemLookup),
            port: endpoint.and_then(|endpoint| guard.relevant_port(endpoint)),
        }))
        .build();
    built.map_err(|error| {
        let message = format!("cannot create the client for a bucket: {error}");
        or_shortage(TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message))
    })
}

/// Returns the shortage as the error if this machine is exhausted, else `error`.
fn or_shortage(error: TaskError) -> TaskError {
    find_shortage().as_ref().map_or(error, exhausted_error)
}

fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails if the process already has a provider, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Error of a blocked address.
pub(crate) fn blocked_error(error: &BlockedAddress) -> TaskError {
    let remedy = match error {
        BlockedAddress::Address { .. } => {
            "; to allow it, add it to NOETL_HTTP_ALLOW on the worker (metadata addresses are always blocked)"
        }
        BlockedAddress::EngineAddress { .. } => "; to allow it, add it with its port to NOETL_HTTP_ALLOW on the worker",
        BlockedAddress::Scheme(_) | BlockedAddress::Metadata(_) | BlockedAddress::NoHost => "",
    };
    let message = format!("{error}{remedy}");
    TaskError::new(ErrorKind::ClientError, "HTTP_ADDRESS_BLOCKED", message)
}

/// Converts a client error to a task error.
pub fn classify_error(error: &reqwest::Error) -> TaskError {
    if let Some(blocked) = find_source::<BlockedAddress>(error) {
        return blocked_error(blocked);
    }
    let message = error_chain(error);
    if error.is_timeout() {
        return TaskError::new(ErrorKind::Timeout, "TIMEOUT", message);
    }
    if error.is_connect() {
        if let Some(error) = find_connect_shortage(error) {
            return error;
        }
        return TaskError::new(ErrorKind::Connection, "HTTP_CONNECT", message);
    }
    if error.is_builder() {
        return TaskError::new(ErrorKind::ClientError, "HTTP_REQUEST", message);
    }
    // An interrupted body is also reported as a decoding error; only invalid data is permanent.
    let is_corrupt = find_source::<std::io::Error>(error).is_some_and(|e| {
        matches!(
            e.kind(),
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput
        )
    });
    if error.is_decode() && is_corrupt {
        return TaskError::new(ErrorKind::Parse, "HTTP_DECODE", message);
    }
    TaskError::new(ErrorKind::Connection, "HTTP_PROTOCOL", message)
}

/// Describes the error by the host, the port and the innermost cause. The rest of the URL may contain a secret.
fn error_chain(error: &reqwest::Error) -> String {
    let cause = innermost_cause(error);
    let Some((host, port)) = error.url().and_then(host_and_port) else {
        return format!("the request failed: {cause}");
    };
    if error.is_timeout() && error.is_connect() {
        format!("timed out connecting to {host}:{port}; check that the service is running")
    } else if error.is_connect() {
        format!(
            "cannot connect to {host}:{port}: {cause}; check that the service is running and that its address is correct"
        )
    } else if error.is_timeout() {
        format!("{host} did not respond in time; raise `timeout`, or retry it in the task policy")
    } else if error.is_body() || error.is_decode() {
        format!("{host} closed the connection before the response was complete: {cause}")
    } else {
        format!("the request to {host} failed: {cause}")
    }
}

fn host_and_port(url: &Url) -> Option<(&str, u16)> {
    Some((url.host_str()?, url.port_or_known_default()?))
}

/// Last error in the chain of sources, without the system's error number.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.replacen("Connection", "connection", 1)
}

fn find_source<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
}
