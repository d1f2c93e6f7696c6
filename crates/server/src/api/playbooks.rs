//! Playbooks as people look at them: versions, differences, the form of inputs, the graph, callers and recent runs.

use std::collections::BTreeMap;

use axum::extract::State;
use language::playbook::describe_inputs;
use model::id::Name;
use serde::Deserialize;
use serde_json::json;
use store::ExecutionFilter;
use utoipa::IntoParams;
use wire::api::{
    InputFormResponse, PlaybookCallerList, PlaybookDiff, PlaybookDiffRequest, PlaybookVersionEntry,
    PlaybookVersionGraph, PlaybookVersionPage, RecentRunsRequest, RecentRunsResponse,
};

use crate::api::access::{Authorized, View};
use crate::api::catalog::{missing_playbook, parse_playbook};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::page_limit;
use crate::api::extract::{JsonBody, PathParam, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::input_form::build_schema;
use crate::playbook_diff::{ComparedPlaybooks, diff_playbooks};
use crate::playbook_graph::build_playbook_graph;
use crate::playbooks::{PlaybookError, RegisteredPlaybook};
use crate::submit::SubmitError;

/// Maximum number of runs that are counted by version.
const COUNTED_RUNS_MAX: usize = 1_000;
/// Maximum number of playbooks whose recent runs are read at once.
const RECENT_PATHS_MAX: usize = 100;

/// Finds a version of a playbook, or its latest, and parses it.
async fn find_playbook(api: &ApiState, path: &str, version: Option<u32>) -> Result<RegisteredPlaybook, ApiError> {
    let registered = api.server.shared.catalog.find_in_catalog(path, version).await;
    registered.map_err(|error| match error {
        PlaybookError::NotFound(_) => missing_playbook(path, version),
        error => SubmitError::from(error).into(),
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionPageParams {
    /// Only versions before this one, for the next page.
    before: Option<u32>,
    /// Maximum number of versions. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List the versions of a playbook, newest first.
///
/// The newest 1,000 runs of the playbook are counted by version.
#[utoipa::path(get, path = "/api/catalog/{path}/versions", tag = "catalog",
    params(("path" = String, Path), VersionPageParams),
    responses((status = 200, description = "the versions", body = PlaybookVersionPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn versions(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
    QueryParams(params): QueryParams<VersionPageParams>,
) -> ApiResult<PlaybookVersionPage> {
    let limit = page_limit(params.limit)?;
    let mut versions = api.store().catalog_versions(&path, params.before, limit + 1).await?;
    if versions.is_empty() && params.before.is_none() {
        return Err(missing_playbook(&path, None));
    }
    let has_more = versions.len() > limit;
    versions.truncate(limit);
    let filter = ExecutionFilter {
        paths: vec![Name::from(path.as_str())],
        limit: COUNTED_RUNS_MAX,
        ..ExecutionFilter::default()
    };
    let runs = api.store().executions(&filter).await?;
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for run in &runs {
        *counts.entry(run.playbook_version).or_default() += 1;
    }
    let next_before = versions.last().map(|last| last.version).filter(|_| has_more);
    let versions = versions.into_iter().map(|version| PlaybookVersionEntry {
        runs: counts.get(&version.version).copied().unwrap_or(0),
        version: version.version,
        hash: version.hash.to_string(),
        registered_at: version.registered_at,
    });
    Ok(Json(PlaybookVersionPage {
        path,
        versions: versions.collect(),
        next_before,
        counted_runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffParams {
    /// The first version.
    from: u32,
    /// The second version. Default: the latest.
    to: Option<u32>,
}

/// Compare two versions of a playbook.
///
/// Returns what a run would do differently: comments, layout and other spellings are no difference. At most 500 changes
/// are returned, with at most 1 MiB of text; longer values are cut off.
#[utoipa::path(get, path = "/api/catalog/{path}/diff", tag = "catalog", params(("path" = String, Path), DiffParams),
    responses((status = 200, description = "the changes", body = PlaybookDiff), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn diff(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
    QueryParams(params): QueryParams<DiffParams>,
) -> ApiResult<PlaybookDiff> {
    let before = find_playbook(&api, &path, Some(params.from)).await?;
    let after = find_playbook(&api, &path, params.to).await?;
    Ok(Json(diff_playbooks(&ComparedPlaybooks {
        path: &path,
        before: (before.entry.version, &before.net.playbook),
        after: (Some(after.entry.version), &after.net.playbook),
    })))
}

/// Compare a version of a playbook with a text that is not registered.
#[utoipa::path(post, path = "/api/catalog/{path}/diff", tag = "catalog", params(("path" = String, Path)),
    request_body = PlaybookDiffRequest,
    responses((status = 200, description = "the changes", body = PlaybookDiff), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn diff_text(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
    JsonBody(request): JsonBody<PlaybookDiffRequest>,
) -> ApiResult<PlaybookDiff> {
    let before = find_playbook(&api, &path, request.from).await?;
    let after = parse_playbook(&request.content)?;
    Ok(Json(diff_playbooks(&ComparedPlaybooks {
        path: &path,
        before: (before.entry.version, &before.net.playbook),
        after: (None, &after),
    })))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionParams {
    /// The version. Default: the latest.
    version: Option<u32>,
}

/// Read a JSON schema for a form of the playbook's inputs, derived from its `workload`.
///
/// Descriptions are the comments above a key of `workload` or beside it. Inputs whose default is null are required.
#[utoipa::path(get, path = "/api/catalog/{path}/ui_schema", tag = "catalog",
    params(("path" = String, Path), VersionParams),
    responses((status = 200, description = "the schema", body = InputFormResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn ui_schema(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
    QueryParams(params): QueryParams<VersionParams>,
) -> ApiResult<InputFormResponse> {
    let registered = find_playbook(&api, &path, params.version).await?;
    let playbook = &registered.net.playbook;
    let mut schema = build_schema(&describe_inputs(playbook));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(playbook.name);
    Ok(Json(InputFormResponse {
        path,
        version: registered.entry.version,
        description: playbook.description.clone(),
        schema,
    }))
}

/// Read a version of a playbook as a graph: its steps and arcs, without a run.
#[utoipa::path(get, path = "/api/catalog/{path}/graph", tag = "catalog",
    params(("path" = String, Path), VersionParams),
    responses((status = 200, description = "steps and arcs", body = PlaybookVersionGraph), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn graph(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
    QueryParams(params): QueryParams<VersionParams>,
) -> ApiResult<PlaybookVersionGraph> {
    let registered = find_playbook(&api, &path, params.version).await?;
    let playbook = &registered.net.playbook;
    let graph = build_playbook_graph(playbook);
    Ok(Json(PlaybookVersionGraph {
        path,
        version: registered.entry.version,
        entry: playbook.entry().name.clone(),
        steps: graph.steps,
        arcs: graph.arcs,
    }))
}

/// List the tasks of other playbooks that call a playbook by its path.
///
/// The latest version of every playbook is searched. Paths that a template computes are not found. At most 500
/// playbooks whose text contains the path are parsed, and at most 200 callers are returned.
#[utoipa::path(get, path = "/api/catalog/{path}/callers", tag = "catalog", params(("path" = String, Path)),
    responses((status = 200, description = "the callers", body = PlaybookCallerList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn callers(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
) -> ApiResult<PlaybookCallerList> {
    Ok(Json(api.server.playbook_callers(&path).await?))
}

/// Read the outcomes and durations of the recent runs of several playbooks.
///
/// Costs one list of 50 runs for each path; a path without runs, or that is not in the catalog, has none.
#[utoipa::path(post, path = "/api/catalog/recent_runs", tag = "catalog", request_body = RecentRunsRequest,
    responses((status = 200, description = "the runs by playbook", body = RecentRunsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn recent_runs(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    JsonBody(request): JsonBody<RecentRunsRequest>,
) -> ApiResult<RecentRunsResponse> {
    let count = request.paths.len();
    if count > RECENT_PATHS_MAX {
        let detail = format!("invalid `paths`: {count} paths; the limit is {RECENT_PATHS_MAX}");
        return Err(ApiError::invalid("BODY_INVALID", detail).with_remedy("request fewer paths at a time"));
    }
    let mut playbooks = Vec::with_capacity(count);
    for path in &request.paths {
        playbooks.push(api.server.recent_runs(path).await?);
    }
    Ok(Json(RecentRunsResponse { playbooks }))
}
