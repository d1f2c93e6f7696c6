//! Output of tasks: receives lines from workers and returns them to clients.

use std::collections::BTreeMap;

use ::results::{LogPosition, LogQuery};
use axum::extract::State;
use model::id::Name;
use model::task_log::LogLevel;
use model::time::Time;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::api::{AppendLogsRequest, AppendLogsResponse, LogEntry, LogsResponse};

use crate::api::access::{Authorized, View, Work};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{ExecutionPath, JsonBody, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::error::Error;

/// Maximum and default page size.
const PAGE_MAX: usize = 10_000;
const PAGE_DEFAULT: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogParams {
    /// Read the lines after this position: `next_after` of the previous page. Default: 0.
    after: Option<u64>,
    /// Read the last lines before this position: the `position` of a line.
    before: Option<u64>,
    /// Read this number of last lines.
    #[param(minimum = 1, maximum = 10000)]
    tail: Option<usize>,
    /// Maximum number of lines. Default: 1000.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
    /// Filter by step.
    step: Option<String>,
    /// Filter by task label.
    task: Option<String>,
    /// Filter by iteration of a loop.
    iteration: Option<u64>,
    /// Filter by attempt, from 1.
    attempt: Option<u32>,
    /// Only lines of at least this level: debug, info, warn, error.
    #[param(value_type = Option<String>)]
    level: Option<LogLevel>,
    /// Only lines that contain this text, in upper or lower case.
    q: Option<String>,
    /// Only lines printed until this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until_time: Option<Time>,
}

impl LogParams {
    /// Where to read, and how many lines.
    fn to_range(&self) -> Result<(LogPosition, usize), ApiError> {
        let (position, limit, name) = match (self.after, self.before, self.tail) {
            (None, None, Some(tail)) if self.limit.is_none() => (LogPosition::End, tail, "tail"),
            (None, Some(before), None) => (LogPosition::Before(before), self.limit.unwrap_or(PAGE_DEFAULT), "limit"),
            (after, None, None) => {
                let position = LogPosition::After(after.unwrap_or(0));
                (position, self.limit.unwrap_or(PAGE_DEFAULT), "limit")
            }
            _ => {
                let detail = "`after`, `before` and `tail` exclude each other; `tail` also excludes `limit`";
                return Err(ApiError::invalid("PARAMETER_INVALID", detail));
            }
        };
        if !(1..=PAGE_MAX).contains(&limit) {
            let detail = format!("invalid `{name}`: expected a number from 1 to {PAGE_MAX}");
            return Err(ApiError::invalid("PARAMETER_INVALID", detail));
        }
        Ok((position, limit))
    }
}

/// Read the output of a run's tasks.
///
/// A log has at most 16 MiB. `tail` and `before` read it from the end, so that they cost the lines that they return; with a
/// filter they read on until enough lines match. `level=error&limit=1` returns the first error with its position.
#[utoipa::path(get, path = "/api/executions/{id}/logs", tag = "runs",
    params(("id" = String, Path), LogParams),
    responses((status = 200, description = "lines, and the position of the next page", body = LogsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn read(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<LogParams>,
) -> ApiResult<LogsResponse> {
    let (position, limit) = params.to_range()?;
    if api.store().execution(id).await?.is_none() {
        return Err(Error::NotFound(id).into());
    }
    let name = |text: Option<String>| text.as_deref().map(Name::from);
    let query = LogQuery {
        position,
        limit,
        step: name(params.step),
        task: name(params.task),
        iteration: params.iteration,
        attempt: params.attempt,
        level: params.level,
        text: params.q,
        until: params.until_time,
    };
    let page = api.logs.read(id, &query).await.map_err(Error::from)?;
    Ok(Json(LogsResponse {
        lines: page
            .lines
            .into_iter()
            .map(|stored| LogEntry::new(stored.position, stored.line))
            .collect(),
        next_after: page.next_after,
        has_earlier: page.has_earlier,
    }))
}

/// Store output lines of tasks.
///
/// A batch that is sent twice is stored twice.
#[utoipa::path(post, path = "/api/worker/logs", tag = "workers", request_body = AppendLogsRequest,
    responses((status = 200, description = "the lines are stored", body = AppendLogsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn append(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    JsonBody(request): JsonBody<AppendLogsRequest>,
) -> ApiResult<AppendLogsResponse> {
    let mut owners = BTreeMap::new();
    let mut lines = Vec::with_capacity(request.lines.len());
    for line in request.lines {
        let exists = if let Some(exists) = owners.get(&line.execution) {
            *exists
        } else {
            let exists = api.store().execution(line.execution).await?.is_some();
            *owners.entry(line.execution).or_insert(exists)
        };
        if exists {
            lines.push(line);
        }
    }
    api.logs.append(&lines).await.map_err(Error::from)?;
    let accepted = lines.len() as u64;
    Ok(Json(AppendLogsResponse { accepted }))
}
