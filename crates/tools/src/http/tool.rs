//! Runs one `http` call: sends the request, follows redirects and returns the outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url};
use results::{ResultWriter, SpaceWatch};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error};
use crate::exhaustion::out_of_space_error;
use crate::http::auth::HttpAuth;
use crate::http::auth_exchange::AuthExchange;
use crate::http::client::{HttpClients, PendingResponse};
use crate::http::receive::{BodyLimits, OversizePolicy, receive_body};
use crate::http::request::{HttpRequest, RequestOptions};
use crate::http::response::{ERROR_BODY_BYTES_MAX, ReceivedResponse};

/// Maximum delay of a retry inside the tool; longer waits belong in the task policy.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// The `http` tool.
pub struct HttpTool {
    clients: Arc<HttpClients>,
    scratch_dir: PathBuf,
    /// Files of NoETL itself, which must not be uploaded.
    forbidden: Vec<PathBuf>,
}

/// Data that all attempts of a call share.
struct CallExchange<'a> {
    options: RequestOptions,
    auth: HttpAuth,
    call: &'a Call,
    /// Records whether the response had to wait for disk space.
    space_watch: SpaceWatch,
}

/// Retries inside the tool; the call has one outcome.
struct HttpRetry {
    attempts: u32,
    delay: Duration,
    is_exponential: bool,
}

impl HttpTool {
    pub fn new(clients: Arc<HttpClients>, scratch_dir: PathBuf) -> Self {
        Self {
            clients,
            scratch_dir,
            forbidden: Vec::new(),
        }
    }

    /// Returns the tool with files that it must not upload.
    #[must_use]
    pub fn with_forbidden_files(mut self, forbidden: Vec<PathBuf>) -> Self {
        self.forbidden = forbidden;
        self
    }

    async fn prepare_exchange<'a>(&self, call: &'a Call) -> Result<(CallExchange<'a>, HttpRequest), TaskError> {
        let options = RequestOptions::new(call, &self.clients.limits)?;
        let auth = HttpAuth::from_call(call)?;
        let mut request = HttpRequest::new(call, &self.forbidden).await?;
        request.apply_auth(&auth);
        let space = SpaceWatch::default();
        let exchange = CallExchange {
            options,
            auth,
            call,
            space_watch: space,
        };
        Ok((exchange, request))
    }

    async fn run_with_retries(&self, exchange: &CallExchange<'_>, request: &HttpRequest, retry: &HttpRetry) -> Outcome {
        let mut attempt = 1;
        loop {
            let outcome = match self.send_and_receive(exchange, request.clone()).await {
                Ok(received) => {
                    let writer = exchange.call.result_writer.as_ref();
                    received.into_outcome(&exchange.options, writer).await
                }
                Err(error) => Outcome::error(error),
            };
            let may_help = outcome.failure().is_some_and(|error| error.retryable);
            if !may_help || attempt >= retry.attempts {
                return outcome;
            }
            tokio::time::sleep(retry.delay_after(attempt, outcome.facets())).await;
            attempt += 1;
        }
    }

    /// Sends a request and returns its successful response; the caller reads the body.
    ///
    /// The host permit is released here, so the reader may request another one for the same host.
    pub async fn open_response(&self, call: &Call) -> Result<Response, TaskError> {
        let (exchange, request) = self.prepare_exchange(call).await?;
        let started = Instant::now();
        let (PendingResponse { response, .. }, request) = self.send_following_redirects(&exchange, request).await?;
        let options = &exchange.options;
        if options.is_ok(response.status()) {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let received = ReceivedResponse {
            status,
            headers,
            url: request.url,
            body: receive_body(response, self.body_limits(&exchange, status)).await,
            elapsed: started.elapsed(),
        };
        match received.into_outcome(options, None).await {
            Outcome::Error(failure) => Err(failure.error),
            Outcome::Ok(_) => unreachable!("a status that is not ok gives an error outcome"),
        }
    }

    /// Sends a request and receives the response.
    async fn send_and_receive(
        &self,
        exchange: &CallExchange<'_>,
        request: HttpRequest,
    ) -> Result<ReceivedResponse, TaskError> {
        let started = Instant::now();
        let (PendingResponse { response, permit }, request) = self.send_following_redirects(exchange, request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bounds = self.body_limits(exchange, status);
        let body = receive_body(response, bounds).await;
        drop(permit);
        Ok(ReceivedResponse {
            status,
            headers,
            url: request.url,
            body,
            elapsed: started.elapsed(),
        })
    }

    /// Sends a request with authentication and follows redirects.
    async fn send_following_redirects(
        &self,
        exchange: &CallExchange<'_>,
        mut request: HttpRequest,
    ) -> Result<(PendingResponse, HttpRequest), TaskError> {
        let CallExchange { options, auth, .. } = exchange;
        let timeouts = options.timeouts();
        let mut auth_exchange = AuthExchange::new(auth, &self.clients, timeouts);
        auth_exchange.apply_token(&mut request).await?;
        let mut redirects = 0;
        loop {
            let pending = self.clients.send(&request, timeouts).await?;
            let Some(pending) = auth_exchange.retry_refused(pending, &mut request).await? else {
                continue;
            };
            let target = if options.follow_redirects {
                redirect_target(&pending.response)?
            } else {
                None
            };
            if let Some(target) = target {
                redirects += 1;
                if redirects > self.clients.limits.redirects_max {
                    return Err(too_many_redirects_error(self.clients.limits.redirects_max));
                }
                request = request.to_redirected(pending.response.status(), target);
                continue;
            }
            return Ok((pending, request));
        }
    }

    /// Size limits for the body of a response.
    fn body_limits<'a>(&'a self, exchange: &'a CallExchange<'_>, status: StatusCode) -> BodyLimits<'a> {
        let CallExchange { options, call, .. } = exchange;
        let limits = &self.clients.limits;
        let inline = call.inline_bytes_max.max(ERROR_BODY_BYTES_MAX);
        let can_stream = call.result_writer.as_ref().is_some_and(ResultWriter::can_stream);
        let (buffered_bytes_max, more) = if !options.is_ok(status) {
            (inline, OversizePolicy::Truncate)
        } else if can_stream {
            (inline, OversizePolicy::Spool(limits.streamed_bytes_max))
        } else {
            (limits.memory_bytes_max, OversizePolicy::Refuse)
        };
        BodyLimits {
            memory_bytes_max: buffered_bytes_max.min(limits.memory_bytes_max),
            oversize_policy: more,
            read_timeout: options.read_timeout,
            scratch_dir: &self.scratch_dir,
            space_watch: &exchange.space_watch,
        }
    }
}

/// Whether the connection broke or the call timed out.
fn is_cut_off(outcome: &Outcome) -> bool {
    let kind = outcome.failure().map(|error| error.kind);
    matches!(kind, Some(ErrorKind::Connection | ErrorKind::Timeout))
}

#[async_trait]
impl Tool for HttpTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let (exchange, request) = self.prepare_exchange(call).await?;
        let retry = HttpRetry::parse(call)?;
        let total = exchange.options.total_timeout;
        let tries = self.run_with_retries(&exchange, &request, &retry);
        let outcome = tokio::select! {
            biased;
            outcome = tries => outcome,
            () = stop.cancelled() => return Err(cancelled_error()),
            () = tokio::time::sleep(total) => Outcome::error(timeout_error(total)),
        };
        if exchange.space_watch.has_waited() && request.is_safe() && is_cut_off(&outcome) {
            return Err(out_of_space_error(&self.scratch_dir));
        }
        Ok(outcome)
    }
}

impl HttpRetry {
    /// Parses `spec.retry`: a number of attempts, or `{attempts, delay, backoff}`. Default: one attempt.
    fn parse(call: &Call) -> Result<Self, TaskError> {
        let mut retry = Self {
            attempts: 1,
            delay: Duration::from_secs(1),
            is_exponential: true,
        };
        match call.spec.get("retry") {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Number(attempts)) => retry.attempts = clamp_attempts(attempts),
            Some(Value::Object(map)) => {
                let attempts = map.get("attempts").or_else(|| map.get("max_attempts"));
                retry.attempts = attempts.and_then(Value::as_number).map_or(3, clamp_attempts);
                if let Some(delay) = map.get("delay").and_then(Value::as_f64) {
                    let delay = delay.clamp(0.0, RETRY_DELAY_MAX.as_secs_f64());
                    retry.delay = Duration::from_secs_f64(delay);
                }
                let backoff = map.get("backoff").and_then(Value::as_str);
                retry.is_exponential = backoff.is_none_or(|b| b == "exponential");
            }
            Some(other) => {
                return Err(call.wrong_type_error("spec.retry", "a number or a map", other));
            }
        }
        Ok(retry)
    }

    fn delay_after(&self, attempt: u32, facets: &Facets) -> Duration {
        let factor = if self.is_exponential {
            2_u32.saturating_pow(attempt - 1)
        } else {
            1
        };
        let retry_after = facets.http.as_ref().and_then(|h| h["retry_after"].as_f64());
        let retry_after = Duration::try_from_secs_f64(retry_after.unwrap_or(0.0)).unwrap_or_default();
        self.delay.saturating_mul(factor).max(retry_after).min(RETRY_DELAY_MAX)
    }
}

fn too_many_redirects_error(redirects_max: usize) -> TaskError {
    let message = format!("too many redirects: the limit is {redirects_max}");
    TaskError::new(ErrorKind::ClientError, "HTTP_REDIRECTS", message)
}

fn clamp_attempts(number: &serde_json::Number) -> u32 {
    let count = number.as_u64().unwrap_or(1).clamp(1, 100);
    u32::try_from(count).unwrap_or(1)
}

/// Target of a redirect, if the response is one.
fn redirect_target(response: &Response) -> Result<Option<Url>, TaskError> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(target) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(target.as_bytes());
    response.url().join(&text).map(Some).map_err(|error| {
        let message = format!("cannot follow the redirect to `{text}`: {error}");
        TaskError::new(ErrorKind::ServerError, "HTTP_REDIRECT", message)
    })
}
