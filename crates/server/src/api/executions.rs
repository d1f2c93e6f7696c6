//! Runs: start and read them.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use model::event::Event;
use model::id::{ExecutionId, Name, Seq};
use model::labels::Labels;
use model::status::RunStatus;
use serde::Deserialize;
use store::{ExecutionRow, Store};
use utoipa::IntoParams;
use wire::api::{
    CancellationStatus, ExecuteRequest, ExecuteResponse, ExecutionDetail, ExecutionGraph, ExecutionSummary,
    FailureList, LoopEntry, OutlinePage,
};

use crate::api::access::{Author, Authorized, Operate, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{ExecutionPath, JsonBody, QueryParams, parse_execution_id};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::submit::ExecutionOptions;

/// Maximum and default page size.
const PAGE_MAX: usize = 1_000;
const PAGE_DEFAULT: usize = 50;

/// Maximum length of a trace ID.
const TRACE_MAX: usize = 128;

/// Start a run.
///
/// The run is durable when the response arrives. A request with a playbook text needs the role `author`.
#[utoipa::path(post, path = "/api/execute", tag = "runs", request_body = ExecuteRequest,
    params(("traceparent" = Option<String>, Header)),
    responses((status = 200, description = "the run has started", body = ExecuteResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn execute(
    State(api): State<ApiState>,
    caller: Authorized<Operate>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> ApiResult<ExecuteResponse> {
    if request.playbook.is_some() {
        // The text is registered in the catalog, and workers run its code.
        caller.check_also::<Author>()?;
    }
    let trace_id = find_trace_id(&request, &headers)?;
    let execution_id = start_execution(&api, request, trace_id).await?;
    Ok(Json(ExecuteResponse {
        execution_id,
        status: RunStatus::Running,
    }))
}

/// Trace of a request: the one it names, or that of its `traceparent` header.
fn find_trace_id(request: &ExecuteRequest, headers: &HeaderMap) -> Result<Option<Name>, ApiError> {
    if let Some(trace) = &request.trace_id {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if trace.is_empty() || trace.len() > TRACE_MAX || !trace.bytes().all(is_plain) {
            let detail = format!("invalid `trace_id`: expected 1 to {TRACE_MAX} letters, digits, `-`, `_`, `.` or `:`");
            return Err(ApiError::invalid("TRACE_ID_INVALID", detail));
        }
        return Ok(Some(Name::from(trace.as_str())));
    }
    let parent = headers.get("traceparent").and_then(|value| value.to_str().ok());
    Ok(parent.and_then(parse_traceparent).map(Name::from))
}

/// Trace ID in a W3C `traceparent` header; `None` if the header is malformed, which is treated as absent.
fn parse_traceparent(header: &str) -> Option<&str> {
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut parts = header.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
    let is_formed = lengths
        .iter()
        .all(|(part, length)| part.len() == *length && is_hex(part));
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (is_formed && version != "ff" && !is_zero(trace) && !is_zero(span)).then_some(trace)
}

async fn start_execution(
    api: &ApiState,
    request: ExecuteRequest,
    trace_id: Option<Name>,
) -> Result<ExecutionId, ApiError> {
    if let Some(payload) = &request.payload
        && !payload.text().starts_with('{')
    {
        return Err(ApiError::invalid(
            "PAYLOAD_INVALID",
            "invalid `payload`: expected an object",
        ));
    }
    let labels = parse_labels(&request)?;
    let (path, version) = resolve_playbook(api, &request).await?;
    let execution = match &request.dedup {
        Some(key) => find_or_create_id(api, key).await?,
        None => api.server.new_execution_id(),
    };
    if request.dedup.is_some() && api.store().execution(execution).await?.is_some() {
        return Ok(execution);
    }
    api.server
        .submit_from_catalog(
            execution,
            &path,
            version,
            ExecutionOptions {
                payload: request.payload,
                trace_id,
                labels,
            },
        )
        .await?;
    Ok(execution)
}

/// The labels of a request.
fn parse_labels(request: &ExecuteRequest) -> Result<Labels, ApiError> {
    let mut labels = Labels::default();
    for (key, value) in &request.labels {
        let added = labels.insert(key, value);
        added.map_err(|error| ApiError::invalid("LABEL_INVALID", error.to_string()))?;
    }
    Ok(labels)
}

/// Catalog path and version of the playbook that a request names; a text is registered first.
async fn resolve_playbook(api: &ApiState, request: &ExecuteRequest) -> Result<(String, Option<u32>), ApiError> {
    if let Some(text) = &request.playbook {
        let path = match &request.path {
            Some(path) => path.clone(),
            None => crate::api::catalog::playbook_path(text)?,
        };
        let registered = api.server.register(&path, text).await?;
        return Ok((path, Some(registered.entry.version)));
    }
    if let Some(path) = &request.path {
        return Ok((path.clone(), request.version));
    }
    let Some(id) = &request.catalog_id else {
        let detail = "one of `path`, `catalog_id` or `playbook` is required";
        return Err(ApiError::invalid("PLAYBOOK_NOT_NAMED", detail));
    };
    let (path, version) = language::playbook::parse_catalog_id(id);
    Ok((path.to_owned(), version.or(request.version)))
}

/// ID of the run that the first request with this `dedup` key started, or a new one.
async fn find_or_create_id(api: &ApiState, request_key: &str) -> Result<ExecutionId, ApiError> {
    let new_id = api.server.new_execution_id().to_string();
    let key = format!("{}{request_key}", store::DEDUP_PREFIX);
    let first = api.store().set_setting_once(&key, &new_id).await?;
    parse_execution_id(&first)
}

/// Checks the page size of a request.
pub(crate) fn page_limit(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(limit) => {
            let detail = format!("invalid `limit` {limit}: expected a number from 1 to {PAGE_MAX}");
            Err(ApiError::invalid("PARAMETER_INVALID", detail))
        }
    }
}

/// Reads the labels of runs and what the active ones wait for, and converts their rows for responses.
pub(crate) async fn to_summaries(
    store: &dyn Store,
    rows: Vec<ExecutionRow>,
) -> Result<Vec<ExecutionSummary>, store::Error> {
    let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
    let mut labels = store.labels(&ids).await?;
    let active = rows.iter().filter(|row| !row.status.is_terminal());
    let active: Vec<ExecutionId> = active.map(|row| row.id).collect();
    let mut signals: BTreeMap<ExecutionId, Name> = match active[..] {
        [] => BTreeMap::new(),
        _ => store.awaited_signals(&active).await?.into_iter().collect(),
    };
    let summaries = rows.into_iter().map(|row| {
        let labels = labels.remove(&row.id).unwrap_or_default();
        let waits_for = signals.remove(&row.id);
        to_summary(row, labels, waits_for)
    });
    Ok(summaries.collect())
}

/// Reads a run, or returns a 404 error.
pub(crate) async fn find_summary(api: &ApiState, id: ExecutionId) -> Result<ExecutionSummary, ApiError> {
    let row = find_row(api, id).await?;
    let mut summaries = to_summaries(&**api.store(), vec![row]).await?;
    Ok(summaries.pop().expect("each row has a summary"))
}

/// Converts a row for responses.
fn to_summary(row: ExecutionRow, labels: Labels, waits_for: Option<Name>) -> ExecutionSummary {
    ExecutionSummary {
        execution_id: row.id,
        status: row.status,
        name: row.name,
        path: row.path,
        version: row.playbook_version,
        hash: row.hash.to_string(),
        seq: row.version,
        generation: row.generation,
        cancelling: row.cancelling,
        parent_execution_id: row.parent,
        started_at: row.started_at,
        finished_at: row.finished_at,
        current_step: row.current,
        waits_for,
        error: row.error,
        labels,
    }
}

/// Reads the row of a run, or returns a 404 error.
pub(crate) async fn find_row(api: &ApiState, id: ExecutionId) -> Result<ExecutionRow, ApiError> {
    let row = api.store().execution(id).await?;
    row.ok_or_else(|| ApiError::not_found("EXECUTION_NOT_FOUND", format!("run {id} not found")))
}

/// Read a run and its result.
///
/// A result of more than 1 MiB, or of a loop with more than 1,000 iterations, is omitted: `result` is null and
/// `result_href` is the path to read it from.
#[utoipa::path(get, path = "/api/executions/{id}", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the run", body = ExecutionDetail), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn show(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<ExecutionDetail> {
    let execution = find_summary(&api, id).await?;
    let run = api.server.small_result(id).await?;
    let omitted = run.omitted_step.as_ref();
    Ok(Json(ExecutionDetail {
        execution_id: id,
        status: run.status,
        result: run.result,
        result_href: omitted.map(|step| format!("/api/result/{id}/{step}")),
        error: run.error,
        execution,
    }))
}

/// Read the status of a run.
#[utoipa::path(get, path = "/api/executions/{id}/status", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the status", body = ExecutionSummary), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn status(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<ExecutionSummary> {
    Ok(Json(find_summary(&api, id).await?))
}

/// Check whether work for a run should stop.
#[utoipa::path(get, path = "/api/executions/{id}/cancellation-check", tag = "runs",
    params(("id" = String, Path)),
    responses((status = 200, description = "whether it should stop", body = CancellationStatus), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn cancellation(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<CancellationStatus> {
    let row = find_row(&api, id).await?;
    Ok(Json(CancellationStatus {
        execution_id: id,
        status: row.status,
        cancelled: row.cancelling || row.status == RunStatus::Cancelled,
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutlineParams {
    /// Only events after this `seq`.
    after_seq: Option<u64>,
    /// Maximum number of events. A page may have fewer even if more follow.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Read the outline of a run: its log without the events of iterations, plus counts and failures of loops.
///
/// The cost of this request does not depend on the number of iterations.
#[utoipa::path(get, path = "/api/executions/{id}/outline", tag = "runs",
    params(("id" = String, Path), OutlineParams),
    responses((status = 200, description = "a page of the outline", body = OutlinePage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn outline(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<OutlineParams>,
) -> ApiResult<OutlinePage> {
    find_row(&api, id).await?;
    let limit = page_limit(params.limit)?;
    let after = Seq(params.after_seq.unwrap_or(0).min(i64::MAX.unsigned_abs()));
    let outline = api.server.reader().outline(id, after, limit).await?;
    let to_json = |events: Vec<Event>| events.iter().map(Event::to_raw).collect();
    let loops = outline.loops.into_iter().map(|entry| LoopEntry {
        step: entry.progress.run.step,
        run: entry.progress.run.run,
        succeeded: entry.progress.succeeded,
        failed: entry.progress.failed,
        retries: entry.progress.retries,
        in_flight: entry.in_flight,
        events: to_json(entry.events),
    });
    Ok(Json(OutlinePage {
        seq: outline.seq,
        loops: loops.collect(),
        events: to_json(outline.events),
        next_after_seq: outline.next,
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphParams {
    /// `seq` of the last event to include. Default: the newest.
    as_of_seq: Option<u64>,
}

/// Read the playbook of a run as a graph: steps and arcs with their progress.
///
/// The cost of the current graph does not depend on the number of iterations. With `as_of_seq`, the server reads all
/// events up to that one; after event 1,000,000 the error is `REPLAY_TOO_LONG`.
#[utoipa::path(get, path = "/api/executions/{id}/graph", tag = "runs", params(("id" = String, Path), GraphParams),
    responses((status = 200, description = "steps and arcs", body = ExecutionGraph), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn graph(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<GraphParams>,
) -> ApiResult<ExecutionGraph> {
    let as_of = params.as_of_seq.map(Seq);
    Ok(Json(api.server.execution_graph(id, as_of).await?))
}

/// Read the failed steps and iterations of a run, grouped by error.
#[utoipa::path(get, path = "/api/executions/{id}/failures", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the failures", body = FailureList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn failures(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<FailureList> {
    Ok(Json(api.server.failures(id).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_gives_its_trace_and_a_malformed_one_nothing() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let traceparent = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(parse_traceparent(&traceparent), Some(trace));
        for malformed in [
            "",
            "00",
            &traceparent.replace("4b", "4B"),
            &traceparent.replace("00-4", "ff-4"),
            &traceparent.replace(trace, &"0".repeat(32)),
            &traceparent.replace("-01", ""),
        ] {
            assert_eq!(parse_traceparent(malformed), None, "{malformed}");
        }
    }
}
