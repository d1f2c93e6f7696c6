//! Events on their way in: one at a time, or in batches.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use model::id::{Name, WorkerId};
use serde_json::json;
use wire::api::{BatchAnswer, BatchRequest, BatchState, BatchStatus, EventAnswer};
use wire::{FORWARDED, Report, Transport, WireEvent};

use crate::api::access::{Authorized, View, Work};
use crate::api::error::{ApiError, Failures};
use crate::api::extract::{Body, Segment};
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::error::Error;
use crate::ingest::{self, Refused};
use crate::peers::{self, Driver};

/// So many events fit into a batch.
const BATCH_MAX: usize = 256;

/// Say what happened, one event at a time.
///
/// When this answers 200, the event is durable. Saying the same again answers with its first place in the log.
#[utoipa::path(post, path = "/api/events", tag = "events", request_body = WireEvent,
    responses((status = 200, description = "the event is in the log, or needs no row", body = EventAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn one(
    State(api): State<Api>,
    _may: Authorized<Work>,
    headers: HeaderMap,
    Body(event): Body<WireEvent>,
) -> Answer<EventAnswer> {
    let execution = event.execution_id;
    let worker = event.worker_id.clone();
    let request = plain(execution, worker, vec![event]);
    let mut answer = take(&api, request, &headers).await?;
    let answer = answer.events.pop();
    answer
        .map(Json)
        .ok_or_else(|| ApiError::unavailable("the event was taken and its place is not known"))
}

fn plain(
    execution_id: model::id::ExecutionId,
    worker_id: Option<WorkerId>,
    events: Vec<WireEvent>,
) -> BatchRequest {
    BatchRequest {
        execution_id,
        worker_id,
        events,
        command_id: None,
        lease_epoch: None,
        end: model::command::ReportEnd::Open,
        pool: None,
        kinds: None,
        free: 0,
    }
}

/// Say what happened, several events of one execution in order.
///
/// All are taken or none. With `command_id` the batch is a worker's report, and the answer may hand over more commands.
/// With `Prefer: respond-async` the batch is durable when this answers 202, and decided soon after.
#[utoipa::path(post, path = "/api/events/batch", tag = "events", request_body = BatchRequest,
    params(("idempotency-key" = Option<String>, Header), ("prefer" = Option<String>, Header)),
    responses((status = 200, description = "the events are in the log", body = BatchAnswer),
        (status = 202, description = "the events are durable and wait to be decided", body = BatchAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn batch(
    State(api): State<Api>,
    _may: Authorized<Work>,
    headers: HeaderMap,
    Body(request): Body<BatchRequest>,
) -> Result<Response, ApiError> {
    check(&request)?;
    if request.command_id.is_some() {
        return Ok(Json(report(&api, request, &headers).await?).into_response());
    }
    if wants_async(&headers) {
        let answer =
            ingest::accept(&api.server.shared, request_id(&api, &headers), request).await?;
        return Ok((StatusCode::ACCEPTED, Json(answer)).into_response());
    }
    Ok(Json(take(&api, request, &headers).await?).into_response())
}

fn check(request: &BatchRequest) -> Result<(), ApiError> {
    if request.events.len() > BATCH_MAX {
        let detail = format!(
            "a batch holds at most {BATCH_MAX} events, not {}",
            request.events.len()
        );
        return Err(ApiError::invalid("BATCH_TOO_LARGE", detail).remedy("send several batches"));
    }
    if request.events.is_empty() && request.command_id.is_none() {
        return Err(ApiError::invalid(
            "BATCH_EMPTY",
            "a batch holds at least one event",
        ));
    }
    let other = request
        .events
        .iter()
        .position(|event| event.execution_id != request.execution_id);
    match other {
        None => Ok(()),
        Some(index) => {
            let detail = format!("event {index} is of another execution than the batch");
            Err(ApiError::invalid("BATCH_MIXED", detail))
        }
    }
}

fn wants_async(headers: &HeaderMap) -> bool {
    let prefer = headers.get("prefer").and_then(|value| value.to_str().ok());
    prefer.is_some_and(|prefer| prefer.to_ascii_lowercase().contains("respond-async"))
}

/// What the batch is known by: the client's own word, or a fresh id.
fn request_id(api: &Api, headers: &HeaderMap) -> Name {
    let key = headers.get("idempotency-key");
    let key = key.and_then(|value| value.to_str().ok()).map(str::trim);
    match key.filter(|key| !key.is_empty()) {
        Some(key) => Name::from(key),
        None => Name::from(api.server.fresh_id().to_string()),
    }
}

/// A worker's report on a command it holds.
async fn report(
    api: &Api,
    request: BatchRequest,
    headers: &HeaderMap,
) -> Result<BatchAnswer, ApiError> {
    let request_id = request_id(api, headers).to_string();
    let report = as_report(api, request)?;
    let transport = api.transport_for(headers.contains_key(FORWARDED));
    let receipt = transport.report(report).await?;
    Ok(BatchAnswer {
        request_id,
        status: BatchState::Completed,
        events: Vec::new(),
        verdict: Some(receipt.verdict),
        next: receipt.next,
    })
}

fn as_report(api: &Api, request: BatchRequest) -> Result<Report, ApiError> {
    let missing = |name: &str| {
        let detail = format!("a report under `command_id` needs `{name}`");
        ApiError::invalid("BODY_INVALID", detail)
    };
    let command = request.command_id.ok_or_else(|| missing("command_id"))?;
    if command.execution != request.execution_id {
        let detail = "the command is of another execution than the batch";
        return Err(ApiError::invalid("BATCH_MIXED", detail));
    }
    let now = api.store().now();
    let mut events = Vec::with_capacity(request.events.len());
    let mut wrong = Vec::new();
    for (index, event) in request.events.iter().enumerate() {
        match event.event(now) {
            Ok(event) => events.push(event),
            Err(error) => wrong.push(json!({"index": index, "detail": error.to_string()})),
        }
    }
    if !wrong.is_empty() {
        let detail = format!("{} of the events cannot be understood", wrong.len());
        return Err(ApiError::invalid("EVENT_INVALID", detail).errors(wrong));
    }
    Ok(Report {
        command,
        worker: request.worker_id.ok_or_else(|| missing("worker_id"))?,
        lease_epoch: request.lease_epoch.ok_or_else(|| missing("lease_epoch"))?,
        events,
        end: request.end,
        pool: request.pool.unwrap_or_else(|| Name::from("default")),
        kinds: request.kinds,
        free: request.free,
    })
}

/// Takes events in where their execution is driven.
async fn take(
    api: &Api,
    request: BatchRequest,
    headers: &HeaderMap,
) -> Result<BatchAnswer, ApiError> {
    let shared = &api.server.shared;
    let is_passed_on = headers.contains_key(FORWARDED);
    let taken = ingest::take(
        shared,
        request.execution_id,
        request.worker_id.clone(),
        request.events.clone(),
    )
    .await;
    match taken {
        Ok(taken) => Ok(BatchAnswer {
            request_id: request_id(api, headers).to_string(),
            status: BatchState::Completed,
            events: taken.events,
            verdict: None,
            next: Vec::new(),
        }),
        Err(Refused::Failed(Error::Elsewhere(owner))) if !is_passed_on => {
            match peers::driver(shared, &owner).await? {
                Driver::Reachable(client) => client
                    .post("/api/events/batch", &request)
                    .await
                    .map_err(passed_on),
                Driver::Silent => Err(Error::Elsewhere(owner).into()),
                Driver::Dead => {
                    api.server.adopt(request.execution_id).await?;
                    let detail = "the execution changes hands; say it again";
                    Err(ApiError::unavailable(detail))
                }
            }
        }
        Err(refused) => Err(refused.into()),
    }
}

/// What another server said, in its own words.
fn passed_on(error: wire::CallError) -> ApiError {
    match error {
        wire::CallError::Problem(problem) => {
            let status = StatusCode::from_u16(problem.status);
            let status = status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            ApiError::new(status, &problem.code, problem.detail).errors(problem.errors)
        }
        error => ApiError::unavailable(error.to_string()),
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let detail = refused.to_string();
        match refused {
            Refused::Invalid(wrong) => {
                let first = wrong.first().map_or(String::new(), |(_, why)| why.clone());
                let wrong = wrong.into_iter();
                let wrong = wrong.map(|(index, why)| json!({"index": index, "detail": why}));
                Self::invalid("EVENT_INVALID", first).errors(wrong.collect())
            }
            Refused::ServersOwn(_) => Self::new(StatusCode::FORBIDDEN, "EVENT_NOT_YOURS", detail),
            Refused::Conflict(_) => Self::conflict("EVENT_ID_CONFLICT", detail),
            Refused::SeveralCommands => {
                Self::invalid("BATCH_SPANS_COMMANDS", detail).remedy("send one batch per command")
            }
            Refused::Fenced => Self::conflict("FENCED", detail),
            Refused::Failed(error) => error.into(),
            Refused::Unfit(refusal) => refusal.into(),
        }
    }
}

/// How a batch stands that was accepted and decided later.
#[utoipa::path(get, path = "/api/events/batch/{request_id}/status", tag = "events",
    params(("request_id" = String, Path)),
    responses((status = 200, description = "how it stands", body = BatchStatus), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn batch_status(
    State(api): State<Api>,
    _may: Authorized<View>,
    Segment(request_id): Segment,
) -> Answer<BatchStatus> {
    let status = ingest::status(&api.server.shared, &Name::from(request_id.as_str())).await?;
    status.map(Json).ok_or_else(|| {
        let detail = format!("no batch is known by `{request_id}`");
        ApiError::not_found("BATCH_NOT_FOUND", detail)
    })
}
