//! Control requests: cancel, pause, resume, retry, rerun, finalize, signal, and patches of `ctx`.

use axum::extract::State;
use model::id::{ExecutionId, Name};
use model::raw::Raw;
use model::status::RunStatus;
use serde_json::{Value, json};
use wire::api::{
    CancelRequest, CtxPatch, Execution, FinalizeRequest, NoteRequest, RerunRequest, RetryRequest,
    Started,
};

use crate::api::access::{Authorized, Operate, View};
use crate::api::error::{ApiError, Failures};
use crate::api::executions::{row, shown};
use crate::api::extract::{Body, Id, IdAnd, MaybeBody};
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::control::Control;
use crate::rerun::Rerun;

/// Sends a control request and returns the run afterwards.
async fn say(api: &Api, id: ExecutionId, control: Control) -> Answer<Execution> {
    api.server.control(id, control).await?;
    Ok(Json(shown(row(api, id).await?)))
}

/// Cancel a run.
///
/// Workers stop their tools. The run ends when all have confirmed, or after 10 seconds.
#[utoipa::path(post, path = "/api/executions/{id}/cancel", tag = "control", params(("id" = String, Path)),
    request_body = Option<CancelRequest>,
    responses((status = 200, description = "the request is recorded", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn cancel(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<CancelRequest>,
) -> Answer<Execution> {
    let control = Control::Cancel {
        reason: request.reason,
        cascade: request.cascade,
    };
    say(&api, id, control).await
}

/// Pause a run.
#[utoipa::path(post, path = "/api/executions/{id}/pause", tag = "control", params(("id" = String, Path)),
    request_body = Option<NoteRequest>,
    responses((status = 200, description = "the run is paused", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn pause(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<NoteRequest>,
) -> Answer<Execution> {
    let reason = request.reason;
    say(&api, id, Control::Pause { reason }).await
}

/// Resume a paused run.
#[utoipa::path(post, path = "/api/executions/{id}/resume", tag = "control", params(("id" = String, Path)),
    request_body = Option<NoteRequest>,
    responses((status = 200, description = "the run continues", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn resume(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    MaybeBody(_): MaybeBody<NoteRequest>,
) -> Answer<Execution> {
    say(&api, id, Control::Resume).await
}

/// Retry the failed steps of a run, in the same run.
#[utoipa::path(post, path = "/api/executions/{id}/retry", tag = "control", params(("id" = String, Path)),
    request_body = Option<RetryRequest>,
    responses((status = 200, description = "the retry has started", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn retry(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<RetryRequest>,
) -> Answer<Execution> {
    let version = request.version;
    say(&api, id, Control::Retry { version }).await
}

/// Rerun a finished run as a new run.
///
/// Results of steps before `from_step` are reused; without it, everything runs again.
#[utoipa::path(post, path = "/api/executions/{id}/rerun", tag = "control", params(("id" = String, Path)),
    request_body = Option<RerunRequest>,
    responses((status = 200, description = "the new run", body = Started), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn rerun(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<RerunRequest>,
) -> Answer<Started> {
    let rerun = Rerun {
        from_step: request.from_step,
        from_iteration: request.from_iteration,
        payload: request.payload,
        version: request.version,
    };
    let execution_id = api.server.rerun(id, rerun).await?;
    Ok(Json(Started {
        execution_id,
        status: RunStatus::Running,
    }))
}

/// Finalize a run with a given status.
///
/// Workers stop as for a cancellation; then the run ends with the given status. Its final step does not run.
#[utoipa::path(post, path = "/api/executions/{id}/finalize", tag = "control", params(("id" = String, Path)),
    request_body = FinalizeRequest,
    responses((status = 200, description = "the request is recorded", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn finalize(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    Body(request): Body<FinalizeRequest>,
) -> Answer<Execution> {
    let control = Control::Finalize {
        ending: request.status,
        reason: request.reason,
    };
    say(&api, id, control).await
}

/// Send a signal to a run that waits for it now or later.
#[utoipa::path(post, path = "/api/executions/{id}/signal/{name}", tag = "control",
    params(("id" = String, Path), ("name" = String, Path)),
    request_body(content = Option<Object>, description = "payload of the signal"),
    responses((status = 200, description = "the signal is recorded", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn signal(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    IdAnd(id, name): IdAnd,
    MaybeBody(payload): MaybeBody<Option<Raw>>,
) -> Answer<Execution> {
    if name.starts_with('$') {
        let detail =
            format!("invalid signal name `{name}`: names that start with `$` are reserved");
        return Err(ApiError::invalid("SIGNAL_NAME_INVALID", detail));
    }
    let name = Name::from(name);
    say(&api, id, Control::Signal { name, payload }).await
}

/// Read the current `ctx` of a run.
#[utoipa::path(get, path = "/api/vars/{id}", tag = "control", params(("id" = String, Path)),
    responses((status = 200, description = "the variables", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn variables(
    State(api): State<Api>,
    _may: Authorized<View>,
    Id(id): Id,
) -> Answer<Value> {
    row(&api, id).await?;
    let state = api.server.state_at(id).await?;
    Ok(Json(json!({
        "execution_id": id,
        "variables": &*state.ctx,
    })))
}

/// Patch the `ctx` of a run.
#[utoipa::path(post, path = "/api/vars/{id}", tag = "control", params(("id" = String, Path)),
    request_body = CtxPatch,
    responses((status = 200, description = "the patch is recorded", body = Execution), Failures),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn patch(
    State(api): State<Api>,
    _may: Authorized<Operate>,
    Id(id): Id,
    Body(request): Body<CtxPatch>,
) -> Answer<Execution> {
    let patch = Raw::of(&request.variables);
    say(&api, id, Control::Patch(patch)).await
}
