//! Pages of the event log of a run, with filters.

use axum::extract::State;
use model::event::{Event, EventKind};
use model::id::{Name, Seq};
use serde::Deserialize;
use utoipa::IntoParams;
use wire::api::EventPage;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::{find_row, page_limit};
use crate::api::extract::{ExecutionPath, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::event_search::{EventFilter, SearchRange};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventParams {
    /// Only events after this `seq`.
    after_seq: Option<u64>,
    /// Only events up to this `seq`.
    until_seq: Option<u64>,
    /// Only events of these types, separated by commas; each is a stored name or an alias.
    #[serde(rename = "type")]
    type_: Option<String>,
    /// Only events of this step.
    step: Option<String>,
    /// Only events of tasks with this label.
    task: Option<String>,
    /// Only events of this iteration of the loop at `step`, which is then required.
    iteration: Option<u64>,
    /// Maximum number of events. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl EventParams {
    fn to_filter(&self) -> Result<EventFilter, ApiError> {
        if self.iteration.is_some() && self.step.is_none() {
            let detail = "`iteration` needs `step`, because loops count their iterations separately";
            return Err(ApiError::invalid("PARAMETER_INVALID", detail));
        }
        let names = self.type_.as_deref().unwrap_or_default().split(',');
        let kinds = names.map(str::trim).filter(|name| !name.is_empty()).map(str::parse);
        let kinds: Result<Vec<EventKind>, _> = kinds.collect();
        Ok(EventFilter {
            kinds: kinds.map_err(|error| ApiError::invalid("PARAMETER_INVALID", error.to_string()))?,
            step: self.step.as_deref().map(Name::from),
            task: self.task.as_deref().map(Name::from),
            iteration: self.iteration,
        })
    }
}

/// Read the event log of a run.
///
/// A request with a filter reads at most 20,000 events: its page can have fewer events than `limit` and still have
/// `next_after_seq`. The events of an `iteration` are found through an index: the 10,000 events before its first recorded
/// end, the 500 before each later one, and the 500 after the last. If it has no recorded end, the last 10,000 events of
/// the run are searched.
#[utoipa::path(get, path = "/api/executions/{id}/events", tag = "runs",
    params(("id" = String, Path), EventParams),
    responses((status = 200, description = "a page of the event log", body = EventPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<EventParams>,
) -> ApiResult<EventPage> {
    let newest = find_row(&api, id).await?.version;
    let limit = page_limit(params.limit)?;
    let filter = params.to_filter()?;
    let range = SearchRange {
        after: Seq(params.after_seq.unwrap_or(0)).min(newest),
        until: params.until_seq.map_or(newest, |until| newest.min(Seq(until))),
    };
    let page = api.server.find_events(id, &filter, range, limit).await?;
    Ok(Json(EventPage {
        events: page.events.iter().map(Event::to_raw).collect(),
        next_after_seq: page.next_after,
    }))
}
