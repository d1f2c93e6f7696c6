//! Replay: a run's state as of any place in its log.

use axum::extract::State;
use model::event::Event;
use model::id::{EventId, ExecutionId, Seq};
use model::time::Time;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use wire::api::ReplayState;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, Failures};
use crate::api::executions::row;
use crate::api::extract::Params;
use crate::api::state::Api;
use crate::api::{Answer, Json};

/// So many events are read at once.
const PAGE: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayParams {
    /// The run.
    #[param(value_type = String)]
    execution_id: ExecutionId,
    /// The last place to fold in.
    as_of_seq: Option<u64>,
    /// The last event to fold in.
    #[param(value_type = Option<String>)]
    as_of_event_id: Option<EventId>,
    /// Fold in what was recorded until then.
    #[param(value_type = Option<String>, format = DateTime)]
    as_of_time: Option<Time>,
}

impl ReplayParams {
    fn goes_beyond(&self, event: &Event, reached: Option<EventId>) -> bool {
        self.as_of_seq.is_some_and(|seq| event.seq.0 > seq)
            || self.as_of_time.is_some_and(|time| event.recorded_at > time)
            || (self.as_of_event_id.is_some() && reached == self.as_of_event_id)
    }
}

/// A run's state as of a place in its log, folded anew.
#[utoipa::path(get, path = "/api/replay/state", tag = "runs", params(ReplayParams),
    responses((status = 200, description = "the state and its checksum", body = ReplayState), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn state(
    State(api): State<Api>,
    _may: Authorized<View>,
    Params(params): Params<ReplayParams>,
) -> Answer<ReplayState> {
    let id = params.execution_id;
    row(&api, id).await?;
    let mut state: Option<engine::State> = None;
    let mut after = Seq(0);
    let mut reached = None;
    'log: loop {
        let events = api.store().events(id, after, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in &events {
            if params.goes_beyond(event, reached) {
                break 'log;
            }
            reached = Some(event.event_id);
            state = engine::fold(state, event);
        }
    }
    if params.as_of_event_id.is_some() && reached != params.as_of_event_id {
        let detail = "the run's log has no event with this id";
        return Err(ApiError::not_found("EVENT_NOT_FOUND", detail));
    }
    let state = state.ok_or_else(|| {
        let detail = "the run had not begun at that place";
        ApiError::not_found("STATE_NOT_FOUND", detail)
    })?;
    let value = serde_json::to_value(&state)
        .map_err(|error| ApiError::unavailable(format!("the state cannot be shown: {error}")))?;
    let checksum = hex::encode(Sha256::digest(value.to_string().as_bytes()));
    Ok(Json(ReplayState {
        execution_id: id,
        seq: state.seq,
        status: state.status(),
        state: value,
        checksum,
    }))
}
