//! Replay: computes a run's state at any position of its log.

use axum::extract::State;
use model::event::Event;
use model::id::{EventId, ExecutionId, Seq};
use model::time::Time;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use wire::api::ReplayResponse;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::QueryParams;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

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
    let value = ciborium::Value::serialized(&state)
        .map_err(|error| ApiError::unavailable(format!("cannot serialize the state: {error}")))?;
    let value = to_json(value);
    let checksum = hex::encode(Sha256::digest(value.to_string().as_bytes()));

    Ok(Json(ReplayResponse {
        execution_id: id,
        seq: state.seq,
        status: state.status(),
        state: value,
        checksum,
    }))
}

/// Converts a value to JSON: keys that are not text become text, bytes become hex.
fn to_json(value: ciborium::Value) -> Value {
    match value {
        ciborium::Value::Integer(number) => {
            let number = i128::from(number);
            i64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from)
        }
        ciborium::Value::Float(number) => Value::from(number),
        ciborium::Value::Bool(flag) => Value::from(flag),
        ciborium::Value::Text(text) => Value::from(text),
        ciborium::Value::Bytes(bytes) => Value::from(hex::encode(bytes)),
        ciborium::Value::Array(items) => items.into_iter().map(to_json).collect(),
        ciborium::Value::Tag(_, value) => to_json(*value),
        ciborium::Value::Map(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(key, value)| (key_to_text(key), to_json(value)));
            Value::Object(entries.collect())
        }
        _ => Value::Null,
    }
}

fn key_to_text(key: ciborium::Value) -> String {
    match to_json(key) {
        Value::String(text) => text,
        // A step run, in the form used everywhere else.
        Value::Object(fields) if fields.contains_key("step") && fields.contains_key("run") => {
            let step = fields["step"].as_str().unwrap_or_default();
            format!("step:{step}:run:{}", fields["run"])
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::id::StepRunId;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_every_kind_become_text() {
        let run = StepRunId {
            step: "a".into(),
            run: 2,
        };
        let by_run = BTreeMap::from([(run, vec![1_u8])]);
        let by_number = BTreeMap::from([(7_u64, Some(by_run))]);
        let value = ciborium::Value::serialized(&by_number).unwrap();
        assert_eq!(to_json(value), json!({"7": {"step:a:run:2": [1]}}));
    }
}
