//! Receives events from clients, one at a time or in batches.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use model::command::ClaimId;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, WorkerId};
use serde::Deserialize;
use serde_json::json;
use store::Priority;
use wire::api::{BatchRequest, BatchResponse, BatchState, BatchStatusResponse, EventResponse};
use wire::{FORWARDED_HEADER, ReportRequest, Transport, WireEvent};

use crate::api::access::{AccessMode, Authorized, Principal, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{JsonBody, PathParam};
use crate::api::leases::fenced_error;
use crate::api::sessions::{SessionOwner, WorkerCaller};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::error::Error;
use crate::ingest::{self, IncomingEvents, IngestError};
use crate::peers::{self, OwnerStatus};

/// Maximum number of events per batch.
const BATCH_MAX: usize = 256;

/// Report one event.
///
/// The event is durable when the response has status 200. Sending the same event again returns its original `seq`.
#[utoipa::path(post, path = "/api/events", tag = "events", request_body = WireEvent,
    responses((status = 200, description = "the event is recorded; otherwise `status` gives the reason", body = EventResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn one(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    headers: HeaderMap,
    JsonBody(event): JsonBody<WireEvent>,
) -> ApiResult<EventResponse> {
    let execution = event.execution_id;
    let execution = execution.ok_or_else(|| ApiError::invalid("BODY_INVALID", "missing field `execution_id`"))?;
    let mut request = single_event_batch(execution, event);
    fill_claim(&mut request)?;
    check_claim(&api, &caller, &mut request).await?;
    let mut response = ingest_events(&api, request, &headers).await?;
    let response = response.events.pop();
    response
        .map(Json)
        .ok_or_else(|| ApiError::unavailable("the event was accepted, but its `seq` is unknown"))
}

/// Makes a batch of one event.
fn single_event_batch(execution_id: ExecutionId, event: WireEvent) -> BatchRequest {
    BatchRequest {
        execution_id,
        worker_id: event.worker_id.clone(),
        events: vec![event],
        command_id: None,
        lease_epoch: None,
        end: model::command::ReportEnd::Open,
        pool: None,
        kinds: None,
        free: 0,
    }
}

/// Report several events of one run, in order.
///
/// Either all events are recorded or none. With `command_id` the batch is a worker's report, and the response may
/// assign more commands. With `Prefer: respond-async` the batch is durable when the response has status 202, and is
/// processed soon after.
#[utoipa::path(post, path = "/api/events/batch", tag = "events", request_body = BatchRequest,
    params(("idempotency-key" = Option<String>, Header), ("prefer" = Option<String>, Header)),
    responses((status = 200, description = "the events are recorded", body = BatchResponse),
        (status = 202, description = "the events are durable and will be processed", body = BatchResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn batch(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    headers: HeaderMap,
    JsonBody(mut request): JsonBody<BatchRequest>,
) -> Result<Response, ApiError> {
    for event in &mut request.events {
        event.execution_id.get_or_insert(request.execution_id);
    }
    check_batch(&request)?;
    if is_report(&request, &headers) {
        let response = apply_report(&api, &caller.principal, request, &headers).await?;
        return Ok(Json(response).into_response());
    }
    fill_claim(&mut request)?;
    check_claim(&api, &caller, &mut request).await?;
    if prefers_async(&headers) {
        let response = ingest::store_batch(&api.server.shared, request_id(&api, &headers), request).await?;
        return Ok((StatusCode::ACCEPTED, Json(response)).into_response());
    }
    Ok(Json(ingest_events(&api, request, &headers).await?).into_response())
}

/// Whether a batch is a report of a current worker, in the form of the log. A batch that another server forwarded for
/// an older client is not: only reports name the worker's pool.
fn is_report(request: &BatchRequest, headers: &HeaderMap) -> bool {
    let is_own = |event: &WireEvent| event.step_run_id.is_some();
    let is_translated = headers.contains_key(FORWARDED_HEADER) && request.pool.is_none();
    request.command_id.is_some() && request.events.iter().all(is_own) && !is_translated
}

/// The claim in the `meta` of an event, as older clients send it.
#[derive(Debug, Default, Deserialize)]
struct ClaimMeta {
    #[serde(default)]
    command_id: Option<CommandId>,
    #[serde(default)]
    lease_epoch: Option<LeaseEpoch>,
}

/// Takes the claim of a batch from its events. All of them must be about one command and from one worker.
fn fill_claim(request: &mut BatchRequest) -> Result<(), ApiError> {
    for (index, event) in request.events.iter().enumerate() {
        let meta: Option<ClaimMeta> = event.meta.as_ref().and_then(|meta| meta.parse_as().ok());
        let meta = meta.unwrap_or_default();
        if let Some(command) = meta.command_id
            && *request.command_id.get_or_insert(command) != command
        {
            return Err(IngestError::SeveralCommands.into());
        }
        request.lease_epoch = request.lease_epoch.or(meta.lease_epoch);
        if let Some(worker) = &event.worker_id
            && *request.worker_id.get_or_insert_with(|| worker.clone()) != *worker
        {
            let detail = format!("event {index} belongs to another worker than the batch");
            return Err(ApiError::invalid("BATCH_MIXED", detail));
        }
    }
    Ok(())
}

/// Checks that the sender holds the claim it names, and replaces the sealed epoch with the one in the store.
///
/// A client that sends no epoch is identified by the session under which it claimed. A `command.heartbeat` event
/// renews that session.
async fn check_claim(api: &ApiState, caller: &WorkerCaller, request: &mut BatchRequest) -> Result<(), ApiError> {
    // The server that forwarded the events has done this already.
    if caller.principal == Principal::Server {
        return Ok(());
    }
    let is_beat = |event: &WireEvent| event.event_type == "command.heartbeat";
    if let Some(worker) = &request.worker_id
        && request.events.iter().any(is_beat)
    {
        api.renew_session_if_due(caller, worker).await?;
    }
    if let Some((command, lease_epoch)) = request.command_id.zip(request.lease_epoch) {
        let worker = match &request.worker_id {
            Some(worker) => worker.clone(),
            None => find_holder(api, command).await?,
        };
        let claim = ClaimId { command, lease_epoch };
        let opened = api.check_lease(&caller.principal, &worker, claim).await?;
        request.lease_epoch = Some(opened);
        request.worker_id = Some(worker);
        return Ok(());
    }
    request.lease_epoch = None;
    if request.events.iter().all(ingest::needs_no_row) {
        return Ok(());
    }
    let may_omit = match &request.worker_id {
        None => api.access == AccessMode::Open,
        Some(worker) => match api.find_session_owner(caller, worker).await? {
            SessionOwner::Caller => true,
            SessionOwner::Nobody => api.access == AccessMode::Open,
            SessionOwner::Another => false,
        },
    };
    if may_omit {
        return Ok(());
    }
    let detail = "the events do not name the lease they belong to";
    Err(ApiError::conflict("FENCED", detail)
        .with_remedy("send the `meta.command_id` and `meta.lease_epoch` that came with the command"))
}

/// Finds the holder of a command.
async fn find_holder(api: &ApiState, command: CommandId) -> Result<WorkerId, ApiError> {
    let open = api.store().open_commands(command.execution).await?;
    let open_command = open.into_iter().find(|open| open.command.id == command);
    let holder = open_command.and_then(|open| open.worker);
    holder.ok_or_else(|| fenced_error(command))
}

fn check_batch(request: &BatchRequest) -> Result<(), ApiError> {
    if request.events.len() > BATCH_MAX {
        let detail = format!("batch has more than {BATCH_MAX} events: {}", request.events.len());
        return Err(ApiError::invalid("BATCH_TOO_LARGE", detail).with_remedy("send several batches"));
    }
    if request.events.is_empty() && request.command_id.is_none() {
        return Err(ApiError::invalid("BATCH_EMPTY", "a batch needs at least one event"));
    }
    let other = request
        .events
        .iter()
        .position(|event| event.execution_id != Some(request.execution_id));
    match other {
        None => Ok(()),
        Some(index) => {
            let detail = format!("event {index} belongs to another run than the batch");
            Err(ApiError::invalid("BATCH_MIXED", detail))
        }
    }
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let prefer = headers.get("prefer").and_then(|value| value.to_str().ok());
    prefer.is_some_and(|prefer| prefer.to_ascii_lowercase().contains("respond-async"))
}

/// ID of the batch: the client's idempotency key, or a new ID.
fn request_id(api: &ApiState, headers: &HeaderMap) -> Name {
    let key = headers.get("idempotency-key");
    let key = key.and_then(|value| value.to_str().ok()).map(str::trim);
    match key.filter(|key| !key.is_empty()) {
        Some(key) => Name::from(key),
        None => Name::from(api.server.new_execution_id().to_string()),
    }
}

/// Handles a worker's report on a command it holds.
async fn apply_report(
    api: &ApiState,
    principal: &Principal,
    request: BatchRequest,
    headers: &HeaderMap,
) -> Result<BatchResponse, ApiError> {
    let request_id = request_id(api, headers).to_string();
    let mut report = to_report(api, request)?;
    let claim = ClaimId {
        command: report.command,
        lease_epoch: report.lease_epoch,
    };
    let worker = report.worker.clone();
    report.lease_epoch = api.check_lease(principal, &worker, claim).await?;
    let transport = api.transport_for(headers.contains_key(FORWARDED_HEADER));
    let mut receipt = transport.report(report).await?;
    api.seal_leases(principal, &worker, &mut receipt.next).await?;
    Ok(BatchResponse {
        request_id,
        status: BatchState::Completed,
        events: Vec::new(),
        verdict: Some(receipt.verdict),
        next: receipt.next,
    })
}

fn to_report(api: &ApiState, request: BatchRequest) -> Result<ReportRequest, ApiError> {
    let missing = |name: &str| {
        let detail = format!("a report under `command_id` needs `{name}`");
        ApiError::invalid("BODY_INVALID", detail)
    };
    let command = request.command_id.ok_or_else(|| missing("command_id"))?;
    if command.execution != request.execution_id {
        let detail = "the command belongs to another run than the batch";
        return Err(ApiError::invalid("BATCH_MIXED", detail));
    }
    let worker = request.worker_id.ok_or_else(|| missing("worker_id"))?;
    let now = api.store().now();
    let mut events = Vec::with_capacity(request.events.len());
    let mut rejected_events = Vec::new();
    for (index, event) in request.events.iter().enumerate() {
        match event.to_event(now) {
            Ok(mut event) => {
                event.worker_id = Some(worker.clone());
                events.push(event);
            }
            Err(error) => rejected_events.push(json!({"index": index, "detail": error.to_string()})),
        }
    }
    if !rejected_events.is_empty() {
        let detail = format!("cannot parse {} of the events", rejected_events.len());
        return Err(ApiError::invalid("EVENT_INVALID", detail).with_errors(rejected_events));
    }
    Ok(ReportRequest {
        command,
        worker,
        lease_epoch: request.lease_epoch.ok_or_else(|| missing("lease_epoch"))?,
        events,
        end: request.end,
        pool: request.pool.unwrap_or_else(|| Name::from("default")),
        kinds: request.kinds,
        free: request.free,
    })
}

/// Ingests events; forwards them if another server owns the run.
async fn ingest_events(api: &ApiState, request: BatchRequest, headers: &HeaderMap) -> Result<BatchResponse, ApiError> {
    let shared = &api.server.shared;
    let is_passed_on = headers.contains_key(FORWARDED_HEADER);
    let incoming = IncomingEvents {
        execution: request.execution_id,
        worker: request.worker_id.clone(),
        command: request.command_id,
        lease_epoch: request.lease_epoch,
        events: request.events.clone(),
    };
    match ingest::ingest_batch(shared, incoming).await {
        Ok(acknowledged) => Ok(BatchResponse {
            request_id: request_id(api, headers).to_string(),
            status: BatchState::Completed,
            events: acknowledged.events,
            verdict: None,
            next: Vec::new(),
        }),
        Err(IngestError::Failed(Error::OwnedBy(owner))) if !is_passed_on => {
            match peers::owner_status(shared, &owner).await? {
                OwnerStatus::Reachable(client) => client
                    .post("/api/events/batch", &request)
                    .await
                    .map_err(forwarded_error),
                OwnerStatus::Unreachable => Err(Error::OwnedBy(owner).into()),
                OwnerStatus::Dead => {
                    api.server.adopt(request.execution_id, Priority::Normal).await?;
                    let detail = "the run is moving to another server; retry";
                    Err(ApiError::unavailable(detail))
                }
            }
        }
        Err(refused) => Err(refused.into()),
    }
}

/// Passes on the error of another server.
fn forwarded_error(error: wire::CallError) -> ApiError {
    match error {
        wire::CallError::Problem(problem) => {
            let status = StatusCode::from_u16(problem.status);
            let status = status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            ApiError::new(status, &problem.code, problem.detail).with_errors(problem.errors)
        }
        error => ApiError::unavailable(error.to_string()),
    }
}

impl From<IngestError> for ApiError {
    fn from(refused: IngestError) -> Self {
        let detail = refused.to_string();
        match refused {
            IngestError::Invalid(wrong) => {
                let first = wrong.first().map_or(String::new(), |(_, reason)| reason.clone());
                let wrong = wrong.into_iter();
                let wrong = wrong.map(|(index, reason)| json!({"index": index, "detail": reason}));
                Self::invalid("EVENT_INVALID", first).with_errors(wrong.collect())
            }
            IngestError::ServerOnly(_) => Self::new(StatusCode::FORBIDDEN, "EVENT_NOT_YOURS", detail),
            IngestError::Conflict(_) => Self::conflict("EVENT_ID_CONFLICT", detail),
            IngestError::SeveralCommands => {
                Self::invalid("BATCH_SPANS_COMMANDS", detail).with_remedy("send one batch per command")
            }
            IngestError::Fenced | IngestError::Unclaimed(_) => Self::conflict("FENCED", detail),
            IngestError::Failed(error) => error.into(),
            IngestError::Refused(refusal) => refusal.into(),
        }
    }
}

/// Read the status of an asynchronous batch.
#[utoipa::path(get, path = "/api/events/batch/{request_id}/status", tag = "events",
    params(("request_id" = String, Path)),
    responses((status = 200, description = "the status", body = BatchStatusResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn batch_status(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(request_id): PathParam,
) -> ApiResult<BatchStatusResponse> {
    let status = ingest::batch_status(&api.server.shared, &Name::from(request_id.as_str())).await?;
    status.map(Json).ok_or_else(|| {
        let detail = format!("batch `{request_id}` not found");
        ApiError::not_found("BATCH_NOT_FOUND", detail)
    })
}
