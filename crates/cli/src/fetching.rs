//! Sends the secret requests of a server through the http tool, so that its network rules apply.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::Outcome;
use serde_json::{Map, Value};
use server::{Fetch, FetchError, FetchRequest, Fetched};
use tokio_util::sync::CancellationToken;
use tools::{Call, Network, NoLog, Timeout, Tool};

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends requests with the http tool, which is created at first use.
pub(crate) struct Guarded {
    network: Network,
    http: OnceLock<Arc<dyn Tool>>,
    /// For addresses that the operator configured.
    trusted: OnceLock<Arc<dyn Tool>>,
}

impl Guarded {
    /// Creates a fetcher with this network access.
    pub(crate) fn new(network: Network) -> Self {
        Self {
            network,
            http: OnceLock::new(),
            trusted: OnceLock::new(),
        }
    }
}

fn http(network: Network) -> Arc<dyn Tool> {
    let config = tools::Config {
        network,
        ..tools::Config::default()
    };
    let registry = tools::Registry::builtin(config);
    registry.get("http").expect("http is built in")
}

#[async_trait]
impl Fetch for Guarded {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, FetchError> {
        let tool = if request.is_operators {
            self.trusted.get_or_init(|| {
                http(Network {
                    allow_private: true,
                    own: Vec::new(),
                    ..self.network.clone()
                })
            })
        } else {
            self.http.get_or_init(|| http(self.network.clone()))
        };
        let outcome = tool.call(call(request), CancellationToken::new(), &NoLog);
        answered(outcome.await)
    }
}

fn call(request: FetchRequest) -> Call {
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
            total: Some(PATIENCE),
            ..Timeout::default()
        },
        ..Call::new("http")
    }
}

/// Converts the outcome. An error contains only the code of the failure, because its message may quote the request.
fn answered(outcome: Outcome) -> Result<Fetched, FetchError> {
    let status = |value: Option<&Value>| value.and_then(Value::as_u64);
    let status = |value| status(value).and_then(|status| u16::try_from(status).ok());
    match outcome {
        Outcome::Ok(mut success) => Ok(Fetched {
            status: status(success.result.get("status_code")).unwrap_or_default(),
            body: success.result["data"].take(),
        }),
        Outcome::Error(failure) => {
            let http = failure.facets.http.as_ref();
            match status(http.and_then(|http| http.get("status"))) {
                Some(status) => Ok(Fetched {
                    status,
                    body: Value::Null,
                }),
                None => Err(FetchError {
                    why: format!("request to the endpoint failed ({})", failure.error.code),
                    is_passing: failure.error.retryable,
                }),
            }
        }
    }
}
