//! Clients that keep their connections, one per way of connecting, and what their errors mean.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use reqwest::{Client, Url, redirect};
use tokio_util::sync::CancellationToken;

use crate::call::{cancelled, timed_out};
use crate::http::guard::{Blocked, Guard, GuardedResolver};
use crate::http::{receive, response};
use crate::registry::HttpLimits;

/// What a connection depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    pub(crate) connect: Duration,
    pub(crate) verify_ssl: bool,
}

/// All clients of a worker.
pub(crate) struct Clients {
    pub(crate) guard: Arc<Guard>,
    pub(crate) limits: HttpLimits,
    by_options: Mutex<HashMap<Options, Client>>,
}

impl Clients {
    pub(crate) fn new(limits: HttpLimits, allow_private: bool) -> Self {
        Self {
            guard: Arc::new(Guard { allow_private }),
            limits,
            by_options: Mutex::default(),
        }
    }

    /// The client for these options, made on first use.
    pub(crate) fn get(&self, options: Options) -> Result<Client, TaskError> {
        let mut clients = self
            .by_options
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&options) {
            return Ok(client.clone());
        }
        let client = self.build(options).map_err(|error| {
            let message = format!("the http client cannot be made: {}", chain(&error));
            TaskError::new(ErrorKind::Unknown, "HTTP_CLIENT", message)
        })?;
        clients.insert(options, client.clone());
        Ok(client)
    }

    /// The text at an address, for scripts.
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
        self.guard.check_url(&parsed).map_err(|e| blocked(&e))?;
        let client = self.get(Options {
            connect: self.limits.connect,
            verify_ssl: true,
        })?;
        let fetch = async {
            let sent = client.get(parsed).send().await.map_err(|e| sort(&e))?;
            let status = sent.status();
            if !status.is_success() {
                let code = format!("HTTP_{}", status.as_u16());
                let message = format!("`{url}` answered {status}");
                return Err(TaskError::new(response::kind_of(status), code, message));
            }
            let body = receive::read(sent, self.limits.held_bytes_max).await?;
            Ok(String::from_utf8_lossy(&body).into_owned())
        };
        tokio::select! {
            text = fetch => text,
            () = stop.cancelled() => Err(cancelled()),
            () = tokio::time::sleep(limit) => Err(timed_out(limit)),
        }
    }

    fn build(&self, options: Options) -> reqwest::Result<Client> {
        install_provider();
        Client::builder()
            .user_agent(concat!("noetl/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect)
            .tls_danger_accept_invalid_certs(!options.verify_ssl)
            .redirect(redirect::Policy::none())
            // A proxy would connect to addresses that nobody here has checked.
            .no_proxy()
            .http2_max_header_list_size(self.limits.header_bytes_max)
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(32)
            .dns_resolver(Arc::new(GuardedResolver(self.guard.clone())))
            .build()
    }
}

fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another part of the process may have installed one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The error of an address that may not be reached.
pub(crate) fn blocked(error: &Blocked) -> TaskError {
    let remedy = match error {
        Blocked::Address { .. } => "; such addresses are not reachable from playbooks here",
        Blocked::Scheme(_) | Blocked::NoHost => "",
    };
    let message = format!("{error}{remedy}");
    TaskError::new(ErrorKind::ClientError, "HTTP_ADDRESS_BLOCKED", message)
}

/// What a client's error means to a playbook.
pub(crate) fn sort(error: &reqwest::Error) -> TaskError {
    if let Some(refused) = find::<Blocked>(error) {
        return blocked(refused);
    }
    let message = chain(error);
    if error.is_timeout() {
        return TaskError::new(ErrorKind::Timeout, "TIMEOUT", message);
    }
    if error.is_connect() {
        return TaskError::new(ErrorKind::Connection, "HTTP_CONNECT", message);
    }
    if error.is_builder() {
        return TaskError::new(ErrorKind::ClientError, "HTTP_REQUEST", message);
    }
    // A body that breaks off is reported as undecodable too; only bytes that are wrong are not worth another try.
    let is_corrupt = find::<std::io::Error>(error).is_some_and(|e| {
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

/// The error and its sources in one sentence, without the URL, which may hold a secret.
fn chain(error: &reqwest::Error) -> String {
    let mut text = if error.is_connect() {
        "the peer could not be reached".to_owned()
    } else if error.is_timeout() {
        "the peer did not answer in time".to_owned()
    } else if error.is_body() || error.is_decode() {
        "the response broke off".to_owned()
    } else {
        "the request failed".to_owned()
    };
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
