//! The loops of a run: counts, cells and durations of their iterations.

use axum::extract::State;
use model::id::{ExecutionId, Name};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use wire::api::{ExecutionTimeline, LoopCells, LoopDurations};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::{ExecutionPath, ExecutionSubPath, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::loop_cells::{CellColumns, CellRequest};

/// Maximum and default number of iterations of a request: the maximum number of items of a loop.
const ITERATIONS_MAX: u64 = 10_000_000;

/// Values of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CellColumnParam {
    /// Statuses.
    #[default]
    Status,
    /// Also durations and attempts.
    Duration,
    /// Also durations and attempts.
    Attempts,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellParams {
    /// Run of the step, from 1. Default: the latest.
    run: Option<u32>,
    /// The first iteration.
    #[serde(default)]
    from: u64,
    /// Maximum number of iterations. Default: 10,000,000.
    #[param(minimum = 1, maximum = 10_000_000)]
    limit: Option<u64>,
    /// `duration` and `attempts` add both columns, which costs more.
    #[serde(default)]
    #[param(inline)]
    by: CellColumnParam,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DurationParams {
    /// Run of the step, from 1. Default: the latest.
    run: Option<u32>,
    /// The first iteration.
    #[serde(default)]
    from: u64,
    /// Maximum number of iterations. Default: 10,000,000.
    #[param(minimum = 1, maximum = 10_000_000)]
    limit: Option<u64>,
}

impl DurationParams {
    fn into_request(self, execution: ExecutionId, step: &str) -> Result<CellRequest, ApiError> {
        let limit = self.limit.unwrap_or(ITERATIONS_MAX);
        if !(1..=ITERATIONS_MAX).contains(&limit) {
            let detail = format!("invalid `limit` {limit}: expected a number from 1 to {ITERATIONS_MAX}");
            return Err(ApiError::invalid("PARAMETER_INVALID", detail));
        }
        Ok(CellRequest {
            execution,
            step: Name::from(step),
            run: self.run,
            from: self.from,
            limit,
        })
    }
}

/// Count the iterations of a loop by status.
#[utoipa::path(get, path = "/api/executions/{id}/loops/{step}", tag = "runs",
    params(("id" = String, Path), ("step" = String, Path)),
    responses((status = 200, description = "counts of the latest run of the loop", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn counts(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionSubPath(id, step): ExecutionSubPath,
) -> ApiResult<Value> {
    find_row(&api, id).await?;
    let loop_rows = api.server.loop_status(id, &Name::from(step.as_str())).await?;
    loop_rows.map(Json).ok_or_else(|| no_loop(id, &step, None))
}

/// Read the iterations of a loop as cells: status, duration and attempts.
///
/// A range of up to 20,000 iterations has one cell for each. In a longer range, a cell covers 2, 5, 10, 20, 50 and so on
/// iterations, so that there are at most 20,000 cells, or 512 with durations. The cost grows with the number of failed
/// iterations of a loop that is done, is constant for a loop that is running, and is limited to 3,000,000 rows of the index of
/// iterations for a loop that stopped early. `by=duration` and `by=attempts` also read at most 50,000 rows of the log. Each
/// request reads at most 50,000 events of steps.
#[utoipa::path(get, path = "/api/executions/{id}/loops/{step}/cells", tag = "runs",
    params(("id" = String, Path), ("step" = String, Path), CellParams),
    responses((status = 200, description = "the cells of a run of the loop", body = LoopCells), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn cells(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionSubPath(id, step): ExecutionSubPath,
    QueryParams(params): QueryParams<CellParams>,
) -> ApiResult<LoopCells> {
    find_row(&api, id).await?;
    let CellParams { run, from, limit, by } = params;
    let request = DurationParams { run, from, limit }.into_request(id, &step)?;
    let columns = match by {
        CellColumnParam::Status => CellColumns::Statuses,
        CellColumnParam::Duration | CellColumnParam::Attempts => CellColumns::Timings,
    };
    let cells = api.server.loop_cells(&request, columns).await?;
    cells.map(Json).ok_or_else(|| no_loop(id, &step, run))
}

/// Count the iterations of a loop by duration.
///
/// Of a range of more than 20,000 iterations, 256 blocks of 64 are measured, evenly distributed over the range; `is_complete`
/// is then false. Reads at most 50,000 rows of the log.
#[utoipa::path(get, path = "/api/executions/{id}/loops/{step}/durations", tag = "runs",
    params(("id" = String, Path), ("step" = String, Path), DurationParams),
    responses((status = 200, description = "the histogram", body = LoopDurations), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn durations(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionSubPath(id, step): ExecutionSubPath,
    QueryParams(params): QueryParams<DurationParams>,
) -> ApiResult<LoopDurations> {
    find_row(&api, id).await?;
    let run = params.run;
    let request = params.into_request(id, &step)?;
    let durations = api.server.loop_durations(&request).await?;
    durations.map(Json).ok_or_else(|| no_loop(id, &step, run))
}

/// Read when the steps, tasks and attempts of a run ran.
///
/// Loops have a band instead of rows: how many iterations ended over time, and at most 50 failed and slow ones. The cost
/// does not depend on the number of iterations: at most 20,000 of all loops together are measured.
#[utoipa::path(get, path = "/api/executions/{id}/timeline", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the timeline", body = ExecutionTimeline), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn timeline(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<ExecutionTimeline> {
    Ok(Json(api.server.execution_timeline(id).await?))
}

fn no_loop(id: ExecutionId, step: &str, run: Option<u32>) -> ApiError {
    let of_run = run.map_or_else(String::new, |run| format!(" with run {run}"));
    let detail = format!("run {id} has no loop at step `{step}`{of_run}");
    ApiError::not_found("LOOP_NOT_FOUND", detail)
}
