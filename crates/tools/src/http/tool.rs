//! Runs one `http` call: sends the request, follows redirects and returns the outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url};
use results::{Keeper, SpaceWatch};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, timed_out};
use crate::exhaustion::out_of_space;
use crate::http::auth::Auth;
use crate::http::client::{Clients, Sent};
use crate::http::proof::Proof;
use crate::http::receive::{Bounds, More, receive};
use crate::http::request::{Manner, Request};
use crate::http::response::{ERROR_BODY_BYTES_MAX, Received};

/// Maximum delay of a retry inside the tool; longer waits belong in the task policy.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// The `http` tool.
pub(crate) struct Http {
    clients: Arc<Clients>,
    scratch_dir: PathBuf,
    /// Files of NoETL itself, which must not be uploaded.
    forbidden: Vec<PathBuf>,
}

/// Data that all attempts of a call share.
struct Exchange<'a> {
    manner: Manner,
    auth: Auth,
    call: &'a Call,
    /// Records whether the response had to wait for disk space.
    space: SpaceWatch,
}

/// Retries inside the tool; the call has one outcome.
struct Retry {
    attempts: u32,
    delay: Duration,
    is_exponential: bool,
}

impl Http {
    pub(crate) fn new(clients: Arc<Clients>, scratch_dir: PathBuf) -> Self {
        Self {
            clients,
            scratch_dir,
            forbidden: Vec::new(),
        }
    }

    /// Returns the tool with files that it must not upload.
    pub(crate) fn keeping(mut self, forbidden: Vec<PathBuf>) -> Self {
        self.forbidden = forbidden;
        self
    }

    async fn run(&self, call: &Call, stop: &CancellationToken) -> Result<Outcome, TaskError> {
        let (exchange, request) = self.prepare(call).await?;
        let retry = Retry::parse(call)?;
        let total = exchange.manner.total;
        let tries = self.try_until(&exchange, &request, &retry);
        let outcome = tokio::select! {
            biased;
            outcome = tries => outcome,
            () = stop.cancelled() => return Err(cancelled()),
            () = tokio::time::sleep(total) => Outcome::error(timed_out(total)),
        };
        if exchange.space.has_waited() && request.is_safe() && is_broken_off(&outcome) {
            return Err(out_of_space(&self.scratch_dir));
        }
        Ok(outcome)
    }

    async fn prepare<'a>(&self, call: &'a Call) -> Result<(Exchange<'a>, Request), TaskError> {
        let manner = Manner::new(call, &self.clients.limits)?;
        let auth = Auth::of(call)?;
        let mut request = Request::new(call, &self.forbidden).await?;
        request.carry(&auth);
        let space = SpaceWatch::default();
        let exchange = Exchange {
            manner,
            auth,
            call,
            space,
        };
        Ok((exchange, request))
    }

    async fn try_until(
        &self,
        exchange: &Exchange<'_>,
        request: &Request,
        retry: &Retry,
    ) -> Outcome {
        let mut attempt = 1;
        loop {
            let outcome = match self.exchange(exchange, request.clone()).await {
                Ok(received) => {
                    let keeper = exchange.call.keeper.as_ref();
                    received.outcome(&exchange.manner, keeper).await
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
    pub(crate) async fn open(&self, call: &Call) -> Result<Response, TaskError> {
        let (exchange, request) = self.prepare(call).await?;
        let started = Instant::now();
        let (Sent { response, .. }, request) = self.follow(&exchange, request).await?;
        let manner = &exchange.manner;
        if manner.is_ok(response.status()) {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let received = Received {
            status,
            headers,
            url: request.url,
            body: receive(response, self.bounds(&exchange, status)).await,
            elapsed: started.elapsed(),
        };
        match received.outcome(manner, None).await {
            Outcome::Error(failure) => Err(failure.error),
            Outcome::Ok(_) => unreachable!("a status that is not ok gives an error outcome"),
        }
    }

    /// Sends a request and receives the response.
    async fn exchange(
        &self,
        exchange: &Exchange<'_>,
        request: Request,
    ) -> Result<Received, TaskError> {
        let started = Instant::now();
        let (Sent { response, turn }, request) = self.follow(exchange, request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bounds = self.bounds(exchange, status);
        let body = receive(response, bounds).await;
        drop(turn);
        Ok(Received {
            status,
            headers,
            url: request.url,
            body,
            elapsed: started.elapsed(),
        })
    }

    /// Sends a request with authentication and follows redirects.
    async fn follow(
        &self,
        exchange: &Exchange<'_>,
        mut request: Request,
    ) -> Result<(Sent, Request), TaskError> {
        let Exchange { manner, auth, .. } = exchange;
        let pace = manner.pace();
        let mut proof = Proof::begin(auth, &self.clients, pace);
        proof.put_into(&mut request).await?;
        let mut redirects = 0;
        loop {
            let sent = self.clients.send(&request, pace).await?;
            let Some(sent) = proof.answer(sent, &mut request).await? else {
                continue;
            };
            let target = if manner.follow_redirects {
                location(&sent.response)?
            } else {
                None
            };
            if let Some(target) = target {
                redirects += 1;
                if redirects > self.clients.limits.redirects_max {
                    return Err(too_many(self.clients.limits.redirects_max));
                }
                request = request.redirected(sent.response.status(), target);
                continue;
            }
            return Ok((sent, request));
        }
    }

    /// Size limits for the body of a response.
    fn bounds<'a>(&'a self, exchange: &'a Exchange<'_>, status: StatusCode) -> Bounds<'a> {
        let Exchange { manner, call, .. } = exchange;
        let limits = &self.clients.limits;
        let inline = call.inline_bytes_max.max(ERROR_BODY_BYTES_MAX);
        let can_stream = call.keeper.as_ref().is_some_and(Keeper::can_stream);
        let (held_bytes_max, more) = if !manner.is_ok(status) {
            (inline, More::LeaveOut)
        } else if can_stream {
            (inline, More::Spool(limits.streamed_bytes_max))
        } else {
            (limits.held_bytes_max, More::Refuse)
        };
        Bounds {
            held_bytes_max: held_bytes_max.min(limits.held_bytes_max),
            more,
            read: manner.read,
            scratch_dir: &self.scratch_dir,
            space: &exchange.space,
        }
    }
}

/// Whether the connection broke or the call timed out.
fn is_broken_off(outcome: &Outcome) -> bool {
    let kind = outcome.failure().map(|error| error.kind);
    matches!(kind, Some(ErrorKind::Connection | ErrorKind::Timeout))
}

#[async_trait]
impl Tool for Http {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, _log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}

impl Retry {
    /// Parses `spec.retry`: a number of attempts, or `{attempts, delay, backoff}`. Default: one attempt.
    fn parse(call: &Call) -> Result<Self, TaskError> {
        let mut retry = Self {
            attempts: 1,
            delay: Duration::from_secs(1),
            is_exponential: true,
        };
        match call.knobs.get("retry") {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Number(attempts)) => retry.attempts = count(attempts),
            Some(Value::Object(map)) => {
                let attempts = map.get("attempts").or_else(|| map.get("max_attempts"));
                retry.attempts = attempts.and_then(Value::as_number).map_or(3, count);
                if let Some(delay) = map.get("delay").and_then(Value::as_f64) {
                    let delay = delay.clamp(0.0, RETRY_DELAY_MAX.as_secs_f64());
                    retry.delay = Duration::from_secs_f64(delay);
                }
                let backoff = map.get("backoff").and_then(Value::as_str);
                retry.is_exponential = backoff.is_none_or(|b| b == "exponential");
            }
            Some(other) => return Err(call.wrong_type("spec.retry", "a number or a map", other)),
        }
        Ok(retry)
    }

    fn delay_after(&self, attempt: u32, facets: &Facets) -> Duration {
        let factor = if self.is_exponential {
            2_u32.saturating_pow(attempt - 1)
        } else {
            1
        };
        let asked = facets.http.as_ref().and_then(|h| h["retry_after"].as_f64());
        let asked = Duration::try_from_secs_f64(asked.unwrap_or(0.0)).unwrap_or_default();
        self.delay
            .saturating_mul(factor)
            .max(asked)
            .min(RETRY_DELAY_MAX)
    }
}

fn too_many(redirects_max: usize) -> TaskError {
    let message = format!("too many redirects: the limit is {redirects_max}");
    TaskError::new(ErrorKind::ClientError, "HTTP_REDIRECTS", message)
}

fn count(number: &serde_json::Number) -> u32 {
    let count = number.as_u64().unwrap_or(1).clamp(1, 100);
    u32::try_from(count).unwrap_or(1)
}

/// Target of a redirect, if the response is one.
fn location(response: &Response) -> Result<Option<Url>, TaskError> {
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
