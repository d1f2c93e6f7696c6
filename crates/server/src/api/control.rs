//! Control requests: cancel, pause, resume, retry, rerun, finalize, signal, and patches of `ctx`.

use axum::extract::State;
use engine::ControlRequest;
use model::event::StopRequest;
use model::id::{ExecutionId, Name};
use model::raw::RawJson;
use model::status::RunStatus;
use serde_json::{Value, json};
use wire::api::{
    CancelRequest, ExecuteResponse, ExecutionSummary, FinalizeRequest, PatchCtxRequest, ReasonRequest, RerunRequest,
    RetryRequest,
};

use crate::api::access::{Authorized, Operate, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::{find_row, summarize};
use crate::api::extract::{ExecutionPath, ExecutionSubPath, JsonBody, OptionalJsonBody};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Sends a control request and returns the run afterwards.
async fn apply_control(api: &ApiState, id: ExecutionId, control: ControlRequest) -> ApiResult<ExecutionSummary> {
    api.server.control(id, control).await?;
    let row = find_row(api, id).await?;
    Ok(Json(summarize(&**api.store(), row).await?))
}

/// Cancel a run.
///
/// Workers stop their tools. The run ends when all have confirmed, or after 10 seconds.
#[utoipa::path(post, path = "/api/executions/{id}/cancel", tag = "control", params(("id" = String, Path)),
    request_body = Option<CancelRequest>,
    responses((status = 200, description = "the request is recorded", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn cancel(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    OptionalJsonBody(request): OptionalJsonBody<CancelRequest>,
) -> ApiResult<ExecutionSummary> {
    let control = ControlRequest::Cancel(StopRequest {
        reason: request.reason,
        cascade: request.cascade,
        ending: None,
    });
    apply_control(&api, id, control).await
}

/// Pause a run.
#[utoipa::path(post, path = "/api/executions/{id}/pause", tag = "control", params(("id" = String, Path)),
    request_body = Option<ReasonRequest>,
    responses((status = 200, description = "the run is paused", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn pause(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    OptionalJsonBody(request): OptionalJsonBody<ReasonRequest>,
) -> ApiResult<ExecutionSummary> {
    let reason = request.reason;
    apply_control(&api, id, ControlRequest::Pause { reason }).await
}

/// Resume a paused run.
#[utoipa::path(post, path = "/api/executions/{id}/resume", tag = "control", params(("id" = String, Path)),
    request_body = Option<ReasonRequest>,
    responses((status = 200, description = "the run continues", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn resume(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    OptionalJsonBody(_): OptionalJsonBody<ReasonRequest>,
) -> ApiResult<ExecutionSummary> {
    apply_control(&api, id, ControlRequest::Resume).await
}

/// Retry the failed steps of a run, in the same run.
#[utoipa::path(post, path = "/api/executions/{id}/retry", tag = "control", params(("id" = String, Path)),
    request_body = Option<RetryRequest>,
    responses((status = 200, description = "the retry has started", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn retry(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    OptionalJsonBody(request): OptionalJsonBody<RetryRequest>,
) -> ApiResult<ExecutionSummary> {
    let version = request.version;
    apply_control(&api, id, ControlRequest::Retry { version }).await
}

/// Rerun a finished run as a new run.
///
/// Results of steps before `from_step` are reused; without it, everything runs again.
#[utoipa::path(post, path = "/api/executions/{id}/rerun", tag = "control", params(("id" = String, Path)),
    request_body = Option<RerunRequest>,
    responses((status = 200, description = "the new run", body = ExecuteResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn rerun(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    OptionalJsonBody(request): OptionalJsonBody<RerunRequest>,
) -> ApiResult<ExecuteResponse> {
    let execution_id = api.server.rerun(id, request).await?;
    Ok(Json(ExecuteResponse {
        execution_id,
        status: RunStatus::Running,
    }))
}

/// Finalize a run with a given status.
///
/// Workers stop as for a cancellation; then the run ends with the given status. Its final step does not run.
#[utoipa::path(post, path = "/api/executions/{id}/finalize", tag = "control", params(("id" = String, Path)),
    request_body = FinalizeRequest,
    responses((status = 200, description = "the request is recorded", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn finalize(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    JsonBody(request): JsonBody<FinalizeRequest>,
) -> ApiResult<ExecutionSummary> {
    let control = ControlRequest::Cancel(StopRequest {
        reason: request.reason,
        cascade: true,
        ending: Some(request.status),
    });
    apply_control(&api, id, control).await
}

/// Send a signal to a run that waits for it now or later.
#[utoipa::path(post, path = "/api/executions/{id}/signal/{name}", tag = "control",
    params(("id" = String, Path), ("name" = String, Path)),
    request_body(content = Option<Object>, description = "payload of the signal"),
    responses((status = 200, description = "the signal is recorded", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn signal(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionSubPath(id, name): ExecutionSubPath,
    OptionalJsonBody(payload): OptionalJsonBody<Option<RawJson>>,
) -> ApiResult<ExecutionSummary> {
    if name.starts_with('$') {
        let detail = format!("invalid signal name `{name}`: names that start with `$` are reserved");
        return Err(ApiError::invalid("SIGNAL_NAME_INVALID", detail));
    }
    let name = Name::from(name);
    apply_control(&api, id, ControlRequest::Signal { name, payload }).await
}

/// Read the current `ctx` of a run.
#[utoipa::path(get, path = "/api/vars/{id}", tag = "control", params(("id" = String, Path)),
    responses((status = 200, description = "the variables", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn variables(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<Value> {
    find_row(&api, id).await?;
    let state = api.server.load_state(id).await?;
    Ok(Json(json!({
        "execution_id": id,
        "variables": &*state.ctx,
    })))
}

/// Patch the `ctx` of a run.
#[utoipa::path(post, path = "/api/vars/{id}", tag = "control", params(("id" = String, Path)),
    request_body = PatchCtxRequest,
    responses((status = 200, description = "the patch is recorded", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn patch(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    ExecutionPath(id): ExecutionPath,
    JsonBody(request): JsonBody<PatchCtxRequest>,
) -> ApiResult<ExecutionSummary> {
    let patch = RawJson::from_serializable(&request.variables);
    apply_control(&api, id, ControlRequest::Patch { patch }).await
}
