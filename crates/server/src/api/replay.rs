//! Replay: computes a run's state at any position of its log.

use axum::extract::State;
use model::event::Event;
use model::id::{EventId, ExecutionId, Seq};
use model::time::Time;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::api::{ReplayResponse, StateCheckResponse, StateResponse};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::{ExecutionPath, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::state_json::{json_checksum, state_to_json};

/// Page size of events.
const PAGE: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayParams {
    /// Run ID.
    #[param(value_type = String)]
    execution_id: ExecutionId,
    /// `seq` of the last event to include.
    as_of_seq: Option<u64>,
    /// ID of the last event to include.
    #[param(value_type = Option<String>)]
    as_of_event_id: Option<EventId>,
    /// Only include events recorded until this time.
    #[param(value_type = Option<String>, format = DateTime)]
    as_of_time: Option<Time>,
}

impl ReplayParams {
    fn is_beyond(&self, event: &Event, cutoff: Option<EventId>) -> bool {
        self.as_of_seq.is_some_and(|seq| event.seq.0 > seq)
            || self.as_of_time.is_some_and(|time| event.recorded_at > time)
            || (self.as_of_event_id.is_some() && cutoff == self.as_of_event_id)
    }
}

/// Compute the state of a run at a position of its log.
#[utoipa::path(get, path = "/api/replay/state", tag = "runs", params(ReplayParams),
    responses((status = 200, description = "the state and its checksum", body = ReplayResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn state(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<ReplayParams>,
) -> ApiResult<ReplayResponse> {
    let id = params.execution_id;
    find_row(&api, id).await?;
    let mut state: Option<engine::ExecutionState> = None;
    let mut after = Seq(0);
    let mut cutoff = None;
    'log: loop {
        let events = api.store().events(id, after, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in &events {
            if params.is_beyond(event, cutoff) {
                break 'log;
            }
            cutoff = Some(event.event_id);
            state = engine::fold(state, event);
        }
    }
    if params.as_of_event_id.is_some() && cutoff != params.as_of_event_id {
        let detail = "the log of the run has no event with this ID";
        return Err(ApiError::not_found("EVENT_NOT_FOUND", detail));
    }
    let state = state.ok_or_else(|| {
        let detail = "the run had not started at this position";
        ApiError::not_found("STATE_NOT_FOUND", detail)
    })?;
    let value = state_to_json(&state).ok_or_else(|| ApiError::unavailable("cannot serialize the state"))?;
    let checksum = json_checksum(&value);
    Ok(Json(ReplayResponse {
        execution_id: id,
        seq: state.seq,
        status: state.status(),
        state: value,
        checksum,
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateParams {
    /// `seq` of the last event to include. Default, and maximum: the newest.
    #[param(minimum = 1)]
    at: Option<u64>,
    /// `seq` of another event, to compare the states at both.
    #[param(minimum = 1)]
    compare: Option<u64>,
}

/// Read the state of a run at one event: variables with the events that wrote them, steps, pipelines and branches.
///
/// The server replays the events up to that one, which takes time in proportion to their number. Up to event 1,000,000 it
/// replays from the start. After it, the server replays at most 1,000,000 events from the latest snapshot; for earlier
/// events the error is `REPLAY_TOO_LONG`.
#[utoipa::path(get, path = "/api/executions/{id}/state", tag = "runs", params(("id" = String, Path), StateParams),
    responses((status = 200, description = "the state", body = StateResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn describe(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<StateParams>,
) -> ApiResult<StateResponse> {
    let (at, compare) = (params.at.map(Seq), params.compare.map(Seq));
    Ok(Json(api.server.state_at(id, at, compare).await?))
}

/// Check that the state replayed from the log equals the state with which the server works.
///
/// The server replays the log from its start, at most 1,000,000 events; for a longer log the error is `REPLAY_TOO_LONG`.
#[utoipa::path(get, path = "/api/executions/{id}/state/check", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the result of the check", body = StateCheckResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn check(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<StateCheckResponse> {
    let check = api.server.check_state(id).await?;
    check
        .map(Json)
        .ok_or_else(|| ApiError::unavailable("the newest events of the run are not durable yet; retry"))
}
