//! Sends the secret requests of a server through the http tool, so that its network rules apply.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::Outcome;
use serde_json::{Map, Value};
use server::{FetchError, FetchRequest, FetchResponse, SecretFetcher};
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, NetworkConfig, Timeout, Tool};

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests with the http tool, which is created at first use.
pub(crate) struct HttpToolFetcher {
    network: NetworkConfig,
    /// Maximum size of a response; `None` selects the limit of the http tool.
    response_bytes_max: Option<usize>,
    http: OnceLock<Arc<dyn Tool>>,
    /// For addresses that the operator configured.
    trusted_http: OnceLock<Arc<dyn Tool>>,
}

impl HttpToolFetcher {
    /// Creates a fetcher with this network access.
    pub(crate) fn new(network: NetworkConfig) -> Self {
        Self {
            network,
            response_bytes_max: None,
            http: OnceLock::new(),
            trusted_http: OnceLock::new(),
        }
    }

    /// Returns the fetcher with a maximum size of responses.
    pub(crate) fn with_response_limit(mut self, bytes_max: usize) -> Self {
        self.response_bytes_max = Some(bytes_max);
        self
    }

    fn http_tool(&self, network: NetworkConfig) -> Arc<dyn Tool> {
        let mut config = tools::Config {
            network,
            ..tools::Config::default()
        };
        if let Some(bytes_max) = self.response_bytes_max {
            config.http.memory_bytes_max = bytes_max;
        }
        let registry = tools::Registry::builtin(config);
        registry.get("http").expect("http is built in")
    }
}

#[async_trait]
impl SecretFetcher for HttpToolFetcher {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let tool = if request.is_operator_url {
            self.trusted_http.get_or_init(|| {
                self.http_tool(NetworkConfig {
                    allow_private: true,
                    protected_addresses: Vec::new(),
                    ..self.network.clone()
                })
            })
        } else {
            self.http.get_or_init(|| self.http_tool(self.network.clone()))
        };
        let outcome = tool.call(to_call(request), CancellationToken::new(), &DiscardingLogSink);
        to_fetch_response(outcome.await)
    }
}

fn to_call(request: FetchRequest) -> Call {
    let mut fields = Map::from_iter([
        ("url".to_owned(), Value::from(request.url)),
        ("method".to_owned(), request.method.into()),
        ("headers".to_owned(), Value::Object(request.headers)),
        ("follow_redirects".to_owned(), false.into()),
    ]);
    fields.extend(request.form.map(|form| ("form".to_owned(), form)));
    fields.extend(request.json.map(|json| ("json".to_owned(), json)));
    Call {
        fields,
        timeout: Timeout {
            total: Some(REQUEST_TIMEOUT),
            ..Timeout::default()
        },
        ..Call::new("http")
    }
}

/// Converts the outcome. An error contains only the code of the failure, because its message may quote the request.
fn to_fetch_response(outcome: Outcome) -> Result<FetchResponse, FetchError> {
    let status = |value: Option<&Value>| value.and_then(Value::as_u64);
    let status = |value| status(value).and_then(|status| u16::try_from(status).ok());
    match outcome {
        Outcome::Ok(mut success) => Ok(FetchResponse {
            status: status(success.result.get("status_code")).unwrap_or_default(),
            body: success.result["data"].take(),
        }),
        Outcome::Error(mut failure) => {
            let http = failure.facets.http.as_ref();
            match status(http.and_then(|http| http.get("status"))) {
                Some(status) => Ok(FetchResponse {
                    status,
                    body: failure.error.details.remove("data").unwrap_or_default(),
                }),
                None => Err(FetchError {
                    reason: format!("request to the endpoint failed ({})", failure.error.code),
                    is_transient: failure.error.retryable,
                }),
            }
        }
    }
}
