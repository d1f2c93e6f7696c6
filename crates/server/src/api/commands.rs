//! The worker protocol: claims, heartbeats, and the data that workers read while they run a command.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use model::command::ClaimId;
use model::id::{CommandId, LeaseEpoch, PlaybookHash, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use wire::Transport;
use wire::api::{
    BuildCommandsRequest, BuildCommandsResponse, ClaimRequest, ClaimResponse, HeartbeatRequest, LoadEventsRequest,
    LoadEventsResponse, LoopResultsRequest, NoticesResponse, ResolveRefRequest, SessionRequest, SessionResponse,
    WorkerEntry, WorkerRequest,
};

use crate::api::access::{Authorized, ClusterPeer, View, Work};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{JsonBody, PathParam};
use crate::api::leases::fenced_error;
use crate::api::references::stream_response;
use crate::api::sessions::WorkerCaller;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json, older_workers};
use crate::driver::DriverRequest;

/// Maximum wait of a claim, in milliseconds.
const WAIT_MAX_MS: u64 = 30_000;
/// Maximum wait of a long poll for notices.
const LISTEN_MAX: Duration = Duration::from_secs(25);
/// Maximum number of commands per claim.
const CLAIM_MAX: u32 = 1_024;
/// Maximum number of events per request.
const EVENTS_MAX: usize = 10_000;
/// Maximum length of a worker's name.
const NAME_MAX: usize = 200;

/// Claim commands to run.
///
/// Waits up to `wait_ms` for the first command.
#[utoipa::path(post, path = "/api/commands/claim", tag = "workers", request_body = ClaimRequest,
    responses((status = 200, description = "commands, possibly none", body = ClaimResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn claim(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    JsonBody(mut request): JsonBody<ClaimRequest>,
) -> ApiResult<ClaimResponse> {
    check_worker_name(&request.worker)?;
    if !(1..=CLAIM_MAX).contains(&request.max) {
        let detail = format!("invalid `max`: expected a number from 1 to {CLAIM_MAX}");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    // A claim counts as a heartbeat: without a session, the claims would expire at once.
    api.renew_session_if_due(&caller, &request.worker).await?;
    request.wait_ms = request.wait_ms.min(WAIT_MAX_MS);
    let transport = api.transport();
    let mut commands = tokio::select! {
        commands = transport.claim(&request) => commands?,
        () = api.closing.cancelled() => Vec::new(),
    };
    api.seal_leases(&caller.principal, &request.worker, &mut commands)
        .await?;
    Ok(Json(ClaimResponse { commands }))
}

fn check_worker_name(worker: &WorkerId) -> Result<(), ApiError> {
    if worker.0.is_empty() || worker.0.len() > NAME_MAX {
        let detail = format!("invalid `worker`: expected 1 to {NAME_MAX} bytes");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    Ok(())
}

/// A worker's request about one command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandRequest {
    /// The worker that holds the command.
    #[schema(value_type = String)]
    worker: WorkerId,
    /// The `lease_epoch` that came with the command.
    #[schema(value_type = u64)]
    lease_epoch: LeaseEpoch,
}

impl CommandRequest {
    /// Returns the worker's claim on the command, with the lease epoch that the store has for it.
    async fn check_claim(&self, api: &ApiState, caller: &WorkerCaller, id: &str) -> Result<ClaimId, ApiError> {
        let command = parse_command_id(id)?;
        check_worker_name(&self.worker)?;
        let claim = ClaimId {
            command,
            lease_epoch: self.lease_epoch,
        };
        let lease_epoch = api.check_lease(&caller.principal, &self.worker, claim).await?;
        Ok(ClaimId { lease_epoch, ..claim })
    }
}

fn parse_command_id(text: &str) -> Result<CommandId, ApiError> {
    text.parse()
        .map_err(|_| ApiError::invalid("ID_INVALID", format!("invalid command ID `{text}`")))
}

/// Renew the lease of one command. Returns instructions for the worker.
#[utoipa::path(post, path = "/api/commands/{id}/heartbeat", tag = "workers", params(("id" = String, Path)),
    request_body = CommandRequest,
    responses((status = 200, description = "the lease is valid", body = NoticesResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn renew(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    PathParam(id): PathParam,
    JsonBody(request): JsonBody<CommandRequest>,
) -> ApiResult<NoticesResponse> {
    let claim = request.check_claim(&api, &caller, &id).await?;
    api.renew_session_if_due(&caller, &request.worker).await?;
    let claims = api.store().worker_claims(&request.worker).await?;
    let current = claims.iter().find(|current| current.claim == claim);
    let current = current.ok_or_else(|| fenced_error(claim.command))?;
    let notices = crate::transport::notice_for(current).into_iter().collect();
    Ok(Json(NoticesResponse { notices }))
}

/// Release a command; other workers can claim it at once.
#[utoipa::path(post, path = "/api/commands/{id}/release", tag = "workers", params(("id" = String, Path)),
    request_body = CommandRequest,
    responses((status = 200, description = "the command is released, or was not held", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn release(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    PathParam(id): PathParam,
    JsonBody(request): JsonBody<CommandRequest>,
) -> ApiResult<Value> {
    let claim = request.check_claim(&api, &caller, &id).await?;
    api.check_session(&caller, &request.worker).await?;
    let ClaimId { command, lease_epoch } = claim;
    api.transport().release_claim(command, lease_epoch).await?;
    Ok(Json(json!({})))
}

/// Register a worker and start its session.
///
/// With `session_secret` the response contains a secret. Send it in the header `X-Noetl-Session` of every call under
/// this name; calls without it are then rejected. A live session under the same name is replaced if it was started
/// with the same access token, and its commands are released; with another access token the request is rejected.
#[utoipa::path(post, path = "/api/worker/pool/register", tag = "workers", request_body = SessionRequest,
    responses((status = 200, description = "the session has started", body = SessionResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn register(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    JsonBody(request): JsonBody<SessionRequest>,
) -> ApiResult<SessionResponse> {
    let SessionRequest {
        heartbeat,
        session_secret,
    } = request;
    check_worker_name(&heartbeat.worker)?;
    let session_secret = api.start_session(&caller, &heartbeat.worker, session_secret).await?;
    apply_heartbeat(&api, &caller, heartbeat).await?;
    Ok(Json(SessionResponse {
        notices: Vec::new(),
        session_secret,
    }))
}

/// Worker heartbeat: renews the worker's session and with it the leases of the listed commands.
///
/// A command that was claimed more than 8 seconds ago and is not listed is released.
#[utoipa::path(post, path = "/api/worker/pool/heartbeat", tag = "workers", request_body = HeartbeatRequest,
    responses((status = 200, description = "the session is renewed", body = NoticesResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn heartbeat(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    JsonBody(request): JsonBody<HeartbeatRequest>,
) -> ApiResult<NoticesResponse> {
    check_worker_name(&request.worker)?;
    api.renew_session(&caller, &request.worker).await?;
    apply_heartbeat(&api, &caller, request).await?;
    Ok(Json(NoticesResponse { notices: Vec::new() }))
}

/// Applies a heartbeat after the session was renewed.
async fn apply_heartbeat(api: &ApiState, caller: &WorkerCaller, request: HeartbeatRequest) -> Result<(), ApiError> {
    api.workers.record_heartbeat(&request);
    let holder = api.session_holder(caller, &request.worker).await?;
    let shared = &api.server.shared;
    let descriptions = &shared.worker_descriptions;
    descriptions
        .record(&*shared.store, &request.worker, &holder, &request.description)
        .await?;
    let mut claims = Vec::with_capacity(request.claims.len());
    for claim in request.claims {
        let opened = api.open_lease(&caller.principal, &request.worker, claim).await?;
        claims.extend(opened.map(|lease_epoch| ClaimId { lease_epoch, ..claim }));
    }
    let request = HeartbeatRequest::new(request.worker, claims);
    api.transport().release_unacknowledged(&request).await?;
    Ok(())
}

/// Deregister a worker and release its commands.
#[utoipa::path(post, path = "/api/worker/pool/deregister", tag = "workers", request_body = WorkerRequest,
    responses((status = 200, description = "the session has ended", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn deregister(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    JsonBody(request): JsonBody<WorkerRequest>,
) -> ApiResult<Value> {
    check_worker_name(&request.worker)?;
    let holder = api.check_session(&caller, &request.worker).await?;
    api.workers.remove(&request.worker);
    let transport = api.transport();
    transport.end_session(&request.worker, &holder).await?;
    Ok(Json(json!({})))
}

/// Long-poll for worker instructions: stop a command, or drain.
#[utoipa::path(post, path = "/api/worker/pool/listen", tag = "workers", request_body = WorkerRequest,
    responses((status = 200, description = "instructions, possibly none", body = NoticesResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn listen(
    State(api): State<ApiState>,
    caller: WorkerCaller,
    JsonBody(request): JsonBody<WorkerRequest>,
) -> ApiResult<NoticesResponse> {
    check_worker_name(&request.worker)?;
    api.check_session(&caller, &request.worker).await?;
    let transport = api.transport();
    let notices = tokio::select! {
        notices = transport.listen(&request.worker) => notices?,
        () = tokio::time::sleep(LISTEN_MAX) => Vec::new(),
        () = api.closing.cancelled() => Vec::new(),
    };
    Ok(Json(NoticesResponse { notices }))
}

/// List the workers known to this server.
#[utoipa::path(get, path = "/api/worker/pools", tag = "workers",
    responses((status = 200, description = "the workers", body = Vec<WorkerEntry>), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn pools(State(api): State<ApiState>, _caller: Authorized<View>) -> ApiResult<Vec<WorkerEntry>> {
    Ok(Json(api.workers.list()))
}

/// Read a playbook by its hash.
#[utoipa::path(get, path = "/api/catalog/hash/{hash}", tag = "workers", params(("hash" = String, Path)),
    responses((status = 200, description = "the text of the playbook", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn playbook(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    PathParam(hash): PathParam,
) -> ApiResult<SourceText> {
    let hash = PlaybookHash(hash.into());
    Ok(Json(api.transport().playbook(&hash).await?))
}

/// Read events of a run by `seq`.
///
/// A client that does not send the header `X-Noetl-Protocol: 2` gets loops over ranges with their items.
#[utoipa::path(post, path = "/api/commands/events", tag = "workers", request_body = LoadEventsRequest,
    responses((status = 200, description = "the events that exist", body = LoadEventsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn events(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<LoadEventsRequest>,
) -> ApiResult<LoadEventsResponse> {
    if request.seqs.len() > EVENTS_MAX {
        let detail = format!("more than {EVENTS_MAX} events requested at once");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let mut events = api.transport().events(request.execution_id, &request.seqs).await?;
    older_workers::rewrite_events(&mut events, older_workers::protocol_version(&headers));
    Ok(Json(LoadEventsResponse::from_events(&events)))
}

/// Read the results of a loop as `{results: […], stats: {…}}`.
#[utoipa::path(post, path = "/api/commands/loop", tag = "workers", request_body = LoopResultsRequest,
    responses((status = 200, description = "the results in index order", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn loop_results(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    JsonBody(request): JsonBody<LoopResultsRequest>,
) -> ApiResult<RawJson> {
    let transport = api.transport();
    let results = transport.loop_results(request.execution_id, &request.pointer);
    Ok(Json(results.await?))
}

/// Read the combined parts of a result manifest, streamed.
#[utoipa::path(post, path = "/api/commands/manifest", tag = "workers", request_body(content = Object),
    responses((status = 200, description = "the parts, combined by the rule of the manifest", content_type = "application/json", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn manifest(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    JsonBody(reference): JsonBody<ResultRef>,
) -> Result<Response, ApiError> {
    let pieces = api.transport().manifest(&reference).await?;
    Ok(stream_response(pieces))
}

/// Resolve a result address (`noetl://execution/…`) to a reference or to an inline value.
#[utoipa::path(post, path = "/api/commands/reference", tag = "workers", request_body = ResolveRefRequest,
    responses((status = 200, description = "`{body: …}` or `{value: …}`", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn look_up(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    JsonBody(request): JsonBody<ResolveRefRequest>,
) -> ApiResult<ResolvedRef> {
    Ok(Json(api.transport().resolve_ref(&request.reference).await?))
}

/// Build commands of runs owned by this server for a worker of another server.
#[utoipa::path(post, path = "/api/cluster/build", tag = "workers", request_body = BuildCommandsRequest,
    responses((status = 200, description = "the commands that can run", body = BuildCommandsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("server"))))]
pub(crate) async fn build(
    State(api): State<ApiState>,
    _caller: Authorized<ClusterPeer>,
    JsonBody(request): JsonBody<BuildCommandsRequest>,
) -> ApiResult<BuildCommandsResponse> {
    let (reply, response) = tokio::sync::oneshot::channel();
    let claims = request.commands.into_iter();
    let build_request = DriverRequest::BuildCommands {
        worker: request.worker,
        claims: claims
            .map(|(command, lease_epoch)| ClaimId { command, lease_epoch })
            .collect(),
        reply,
    };
    api.server.shared.driver.send(build_request).await?;
    let commands = response.await.unwrap_or_default();
    Ok(Json(BuildCommandsResponse { commands }))
}
