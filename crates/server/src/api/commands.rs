//! The worker protocol: claims, heartbeats, and the data that workers read while they run a command.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use model::id::{CommandId, LeaseEpoch, PlaybookHash, WorkerId};
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use wire::api::{
    BuildAnswer, BuildRequest, ClaimAnswer, ClaimRequest, EventsAtAnswer, EventsAtRequest,
    HeartbeatRequest, LeaveRequest, LookUpRequest, LoopRequest, SessionRequest, SessionResponse,
    ToldAnswer, WorkerPool,
};
use wire::{Ask, Held, PlaybookText, Pulse, Transport};

use crate::api::access::{Authorized, Cluster, View, Work};
use crate::api::error::{ApiError, Failures};
use crate::api::extract::{Body, Segment};
use crate::api::leases::fenced;
use crate::api::references::streamed;
use crate::api::sessions::WorkerCaller;
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::drive::Order;

/// Maximum wait of a claim.
const WAIT_MAX: Duration = Duration::from_secs(30);
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
    responses((status = 200, description = "commands, possibly none", body = ClaimAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn claim(
    State(api): State<Api>,
    caller: WorkerCaller,
    Body(request): Body<ClaimRequest>,
) -> Answer<ClaimAnswer> {
    named(&request.worker)?;
    if !(1..=CLAIM_MAX).contains(&request.max) {
        let detail = format!("invalid `max`: expected a number from 1 to {CLAIM_MAX}");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    // A claim counts as a heartbeat: without a session, the claims would expire at once.
    api.keep_session(&caller, &request.worker).await?;
    let ask = Ask {
        worker: request.worker,
        pool: request.pool,
        kinds: request.kinds,
        max: request.max,
        wait: Duration::from_millis(request.wait_ms).min(WAIT_MAX),
    };
    let transport = api.transport();
    let mut commands = tokio::select! {
        commands = transport.claim(&ask) => commands?,
        () = api.closing.cancelled() => Vec::new(),
    };
    api.seal_leases(&caller.principal, &ask.worker, &mut commands)
        .await?;
    Ok(Json(ClaimAnswer { commands }))
}

fn named(worker: &WorkerId) -> Result<(), ApiError> {
    if worker.0.is_empty() || worker.0.len() > NAME_MAX {
        let detail = format!("invalid `worker`: expected 1 to {NAME_MAX} bytes");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    Ok(())
}

/// A worker's request about one command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneCommand {
    /// The worker that holds the command.
    #[schema(value_type = String)]
    worker: WorkerId,
    /// The `lease_epoch` that came with the command.
    #[schema(value_type = u64)]
    lease_epoch: LeaseEpoch,
}

fn command(text: &str) -> Result<CommandId, ApiError> {
    text.parse()
        .map_err(|_| ApiError::invalid("ID_INVALID", format!("invalid command ID `{text}`")))
}

/// Renew the lease of one command. Returns instructions for the worker.
#[utoipa::path(post, path = "/api/commands/{id}/heartbeat", tag = "workers", params(("id" = String, Path)),
    request_body = OneCommand,
    responses((status = 200, description = "the lease is valid", body = ToldAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn keep(
    State(api): State<Api>,
    caller: WorkerCaller,
    Segment(id): Segment,
    Body(request): Body<OneCommand>,
) -> Answer<ToldAnswer> {
    let command = command(&id)?;
    named(&request.worker)?;
    let lease_epoch = opened(&api, &caller, command, &request).await?;
    api.keep_session(&caller, &request.worker).await?;
    let held = api.store().held(&request.worker).await?;
    let claim = held
        .iter()
        .find(|held| held.command == command && held.lease_epoch == lease_epoch);
    let claim = claim.ok_or_else(|| fenced(command))?;
    let told = crate::transport::told(claim).into_iter().collect();
    Ok(Json(ToldAnswer { told }))
}

/// Decodes the epoch that a worker sends for a command.
async fn opened(
    api: &Api,
    caller: &WorkerCaller,
    command: CommandId,
    request: &OneCommand,
) -> Result<LeaseEpoch, ApiError> {
    let held = Held {
        command,
        lease_epoch: request.lease_epoch,
    };
    api.must_open_lease(&caller.principal, &request.worker, held)
        .await
}

/// Release a command; other workers can claim it at once.
#[utoipa::path(post, path = "/api/commands/{id}/release", tag = "workers", params(("id" = String, Path)),
    request_body = OneCommand,
    responses((status = 200, description = "the command is released, or was not held", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn release(
    State(api): State<Api>,
    caller: WorkerCaller,
    Segment(id): Segment,
    Body(request): Body<OneCommand>,
) -> Answer<Value> {
    let command = command(&id)?;
    named(&request.worker)?;
    let lease_epoch = opened(&api, &caller, command, &request).await?;
    api.check_session(&caller, &request.worker).await?;
    api.store().release(command, lease_epoch).await?;
    for order in [Order::Forget(command), Order::Offered] {
        api.server.shared.drive.send(order).await?;
    }
    Ok(Json(json!({})))
}

/// Register a worker and start its session.
///
/// With `session_secret` the response contains a secret. Send it in the header `X-Noetl-Session` of every call under
/// this name; calls without it are then rejected. A live session under the same name is replaced if it was started
/// with the same access token, and its commands are released; with another access token the request is rejected.
#[utoipa::path(post, path = "/api/worker/pool/register", tag = "workers", request_body = SessionRequest,
    responses((status = 200, description = "the session has started", body = SessionResponse), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn register(
    State(api): State<Api>,
    caller: WorkerCaller,
    Body(request): Body<SessionRequest>,
) -> Answer<SessionResponse> {
    let SessionRequest {
        heartbeat,
        session_secret,
    } = request;
    named(&heartbeat.worker)?;
    let session_secret = api
        .begin_session(&caller, &heartbeat.worker, session_secret)
        .await?;
    take_heartbeat(&api, &caller, heartbeat).await?;
    Ok(Json(SessionResponse {
        told: Vec::new(),
        session_secret,
    }))
}

/// Worker heartbeat: renews the worker's session and with it the leases of the listed commands.
///
/// A command that was claimed more than 8 seconds ago and is not listed is released.
#[utoipa::path(post, path = "/api/worker/pool/heartbeat", tag = "workers", request_body = HeartbeatRequest,
    responses((status = 200, description = "the session is renewed", body = ToldAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn heartbeat(
    State(api): State<Api>,
    caller: WorkerCaller,
    Body(request): Body<HeartbeatRequest>,
) -> Answer<ToldAnswer> {
    named(&request.worker)?;
    api.renew_session(&caller, &request.worker).await?;
    take_heartbeat(&api, &caller, request).await?;
    Ok(Json(ToldAnswer { told: Vec::new() }))
}

/// Applies a heartbeat after the session was renewed.
async fn take_heartbeat(
    api: &Api,
    caller: &WorkerCaller,
    request: HeartbeatRequest,
) -> Result<(), ApiError> {
    api.workers.seen(&request);
    let mut holds = Vec::with_capacity(request.holds.len());
    for held in request.holds {
        let opened = api
            .open_lease(&caller.principal, &request.worker, held)
            .await?;
        holds.extend(opened.map(|lease_epoch| Held {
            lease_epoch,
            ..held
        }));
    }
    let pulse = Pulse {
        worker: request.worker,
        holds,
    };
    api.transport().reclaim_unheard(&pulse).await?;
    Ok(())
}

/// Deregister a worker and release its commands.
#[utoipa::path(post, path = "/api/worker/pool/deregister", tag = "workers", request_body = LeaveRequest,
    responses((status = 200, description = "the session has ended", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn deregister(
    State(api): State<Api>,
    caller: WorkerCaller,
    Body(request): Body<LeaveRequest>,
) -> Answer<Value> {
    named(&request.worker)?;
    let holder = api.check_session(&caller, &request.worker).await?;
    api.workers.gone(&request.worker);
    let transport = api.transport();
    transport.end_session(&request.worker, &holder).await?;
    Ok(Json(json!({})))
}

/// Long-poll for worker instructions: stop a command, or drain.
#[utoipa::path(post, path = "/api/worker/pool/listen", tag = "workers", request_body = LeaveRequest,
    responses((status = 200, description = "instructions, possibly none", body = ToldAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn listen(
    State(api): State<Api>,
    caller: WorkerCaller,
    Body(request): Body<LeaveRequest>,
) -> Answer<ToldAnswer> {
    named(&request.worker)?;
    api.check_session(&caller, &request.worker).await?;
    let transport = api.transport();
    let told = tokio::select! {
        told = transport.listen(&request.worker) => told?,
        () = tokio::time::sleep(LISTEN_MAX) => Vec::new(),
        () = api.closing.cancelled() => Vec::new(),
    };
    Ok(Json(ToldAnswer { told }))
}

/// List the workers known to this server.
#[utoipa::path(get, path = "/api/worker/pools", tag = "workers",
    responses((status = 200, description = "the workers", body = Vec<WorkerPool>), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn pools(
    State(api): State<Api>,
    _may: Authorized<View>,
) -> Answer<Vec<WorkerPool>> {
    Ok(Json(api.workers.list()))
}

/// Read a playbook by its hash.
#[utoipa::path(get, path = "/api/catalog/hash/{hash}", tag = "workers", params(("hash" = String, Path)),
    responses((status = 200, description = "the text of the playbook", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn playbook(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Segment(hash): Segment,
) -> Answer<PlaybookText> {
    let hash = PlaybookHash(hash.into());
    Ok(Json(api.transport().playbook(&hash).await?))
}

/// Read events of a run by `seq`.
#[utoipa::path(post, path = "/api/commands/events", tag = "workers", request_body = EventsAtRequest,
    responses((status = 200, description = "the events that exist", body = EventsAtAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn events(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Body(request): Body<EventsAtRequest>,
) -> Answer<EventsAtAnswer> {
    if request.seqs.len() > EVENTS_MAX {
        let detail = format!("more than {EVENTS_MAX} events requested at once");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let events = api
        .transport()
        .events(request.execution_id, &request.seqs)
        .await?;
    Ok(Json(EventsAtAnswer::of(&events)))
}

/// Read the results of a loop as `{results: […], stats: {…}}`.
#[utoipa::path(post, path = "/api/commands/loop", tag = "workers", request_body = LoopRequest,
    responses((status = 200, description = "the results in index order", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn loop_results(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Body(request): Body<LoopRequest>,
) -> Answer<Raw> {
    let transport = api.transport();
    let results = transport.loop_results(request.execution_id, &request.pointer);
    Ok(Json(results.await?))
}

/// Read the combined parts of a result manifest, streamed.
#[utoipa::path(post, path = "/api/commands/manifest", tag = "workers", request_body(content = Object),
    responses((status = 200, description = "the parts, combined by the rule of the manifest", content_type = "application/json", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn manifest(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Body(reference): Body<ResultRef>,
) -> Result<Response, ApiError> {
    let pieces = api.transport().manifest(&reference).await?;
    Ok(streamed(pieces))
}

/// Resolve a result address (`noetl://execution/…`) to a reference or to an inline value.
#[utoipa::path(post, path = "/api/commands/reference", tag = "workers", request_body = LookUpRequest,
    responses((status = 200, description = "`{body: …}` or `{value: …}`", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn look_up(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Body(request): Body<LookUpRequest>,
) -> Answer<Resolved> {
    Ok(Json(api.transport().look_up(&request.reference).await?))
}

/// Build commands of runs owned by this server for a worker of another server.
#[utoipa::path(post, path = "/api/cluster/build", tag = "workers", request_body = BuildRequest,
    responses((status = 200, description = "the commands that can run", body = BuildAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("server"))))]
pub(crate) async fn build(
    State(api): State<Api>,
    _may: Authorized<Cluster>,
    Body(request): Body<BuildRequest>,
) -> Answer<BuildAnswer> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let order = Order::Build {
        worker: request.worker,
        commands: request.commands,
        reply,
    };
    api.server.shared.drive.send(order).await?;
    let commands = answer.await.unwrap_or_default();
    Ok(Json(BuildAnswer { commands }))
}
