//! Results: finds them by step, task, iteration, page and attempt, lists them, and resolves addresses.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt as _;
use model::event::EventLocation;
use model::id::{Name, Seq};
use model::playbook::ResultControl;
use model::result_ref::ResultRef;
use serde::Deserialize;
use serde_json::json;
use tokio_util::io::StreamReader;
use utoipa::{IntoParams, ToSchema};
use wire::ByteStream;
use wire::api::{ReferenceList, ResultSelector};

use crate::api::access::{Authorized, View, Work};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::{find_row, page_limit};
use crate::api::extract::{ExecutionPath, ExecutionSubPath, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json, range};
use crate::error::Error;
use crate::result_reader::{LocatedResult, ResultAddress, wrap_stream};

/// Prefix of the address of a result.
const SCHEME: &str = "noetl://execution/";

/// Requested form of a manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ManifestForm {
    /// The combined parts.
    #[default]
    Value,
    /// The manifest itself, with the address of each part.
    Manifest,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveParams {
    /// Address (`noetl://execution/…`), or the whole reference as JSON.
    #[serde(rename = "ref")]
    reference: String,
    /// Form of a manifest: `value` returns the combined parts, `manifest` the list of their addresses. Default:
    /// `value`.
    #[serde(default)]
    #[param(inline)]
    form: ManifestForm,
}

/// Read the result behind a reference, or the part that the `Range` header requests.
#[utoipa::path(get, path = "/api/result/resolve", tag = "runs", params(ResolveParams),
    responses((status = 200, description = "the bytes of the result", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "the requested bytes", content_type = "application/octet-stream", body = Vec<u8>),
        ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn resolve(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    headers: HeaderMap,
    QueryParams(params): QueryParams<ResolveParams>,
) -> Result<Response, ApiError> {
    let requested = if params.reference.trim_start().starts_with('{') {
        let reference: ResultRef = serde_json::from_str(&params.reference)
            .map_err(|error| ApiError::invalid("REFERENCE_INVALID", error.to_string()))?;
        LocatedResult::from_reference(reference)
    } else {
        find_result(&api, &params.reference).await?
    };
    let reader = api.server.reader();
    match (&requested, params.form) {
        (LocatedResult::Body(reference), _) => {
            let range = range::parse_range_header(&headers, reference.meta.bytes)?;
            let is_part = range.is_some();
            let body = api.server.shared.bodies.read(reference, range).await;
            let body = body.map_err(|error| {
                if error.is_missing() {
                    ApiError::not_found(error.code(), error.message_for(reference))
                } else {
                    Error::from(error).into()
                }
            })?;
            let type_ = &reference.meta.content_type;
            Ok(range::body_response(body, type_, is_part))
        }
        (LocatedResult::Manifest(reference, rule), ManifestForm::Manifest) => {
            let pieces = reader.stream_manifest(reference, rule).await?;
            Ok(stream_response(pieces))
        }
        _ => {
            let pieces = reader.stream(requested).await?;
            Ok(stream_response(pieces))
        }
    }
}

/// Streams JSON text.
pub(crate) fn stream_response(pieces: ByteStream) -> Response {
    let body = Body::from_stream(pieces);
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Resolves an address.
async fn find_result(api: &ApiState, uri: &str) -> Result<LocatedResult, ApiError> {
    if !uri.starts_with(SCHEME) {
        let detail = format!("`{uri}` is not a result address");
        return Err(ApiError::invalid("REFERENCE_INVALID", detail)
            .with_remedy("use `noetl://execution/<id>/step/…`, or the whole reference as JSON"));
    }
    if model::manifest::execution_of_uri(uri).is_none() {
        let detail = format!("`{uri}` does not contain a valid run ID");
        return Err(ApiError::invalid("ID_INVALID", detail));
    }
    let located = api.server.reader().resolve(uri).await?;
    located.ok_or_else(|| {
        let detail = format!("result `{uri}` not found");
        ApiError::not_found("REFERENCE_NOT_AVAILABLE", detail)
            .with_remedy("GET /api/result/{id}/list lists the results of a run")
    })
}

/// Maximum size of a result in a request.
const PUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutParams {
    /// Step that the result belongs to.
    step: String,
    /// Label of the task.
    task: String,
    /// Number of the step run, from 1. Default: 1.
    run: Option<u32>,
    /// The iteration, from 0.
    iteration: Option<u64>,
    /// Attempt number, from 1. Default: 1.
    attempt: Option<u32>,
}

/// Store a result for a run.
///
/// Returns the reference to send in an event. The body is durable when the response arrives; the run itself does not
/// change.
#[utoipa::path(put, path = "/api/result/{id}", tag = "workers", params(("id" = String, Path), PutParams),
    request_body(content = Object, description = "any JSON, up to 64 MiB"),
    responses((status = 200, description = "the reference", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn put(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<PutParams>,
    body: Body,
) -> ApiResult<ResultRef> {
    find_row(&api, id).await?;
    let location = EventLocation {
        step: Some(Name::from(params.step.as_str())),
        run: params.run.unwrap_or(1),
        iteration: params.iteration,
        task: Some(Name::from(params.task.as_str())),
        visit: 1,
        attempt: params.attempt.unwrap_or(1),
        ..EventLocation::default()
    };
    let origin = ::results::ResultOrigin {
        execution: id,
        location: &location,
        now: api.store().now(),
    };
    let writer = ::results::ResultWriter {
        store: api.server.shared.bodies.clone(),
        control: ResultControl::default(),
        uri: origin.uri(),
        bytes_max: PUT_BYTES_MAX,
        missing_paths: ::results::MissingPaths::default(),
    };
    let chunks = body.into_data_stream().map_err(io::Error::other);
    let stored = writer.write(&mut StreamReader::new(chunks)).await;
    stored.map(Json).map_err(|error| match error {
        ::results::Error::TooLarge { .. } => {
            let detail = format!("result exceeds {PUT_BYTES_MAX} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", detail)
                .with_remedy("send it in parts, or let a task of a worker stream it")
        }
        error @ ::results::Error::NotJson(_) => {
            ApiError::invalid("BODY_INVALID", error.to_string()).with_remedy("send JSON")
        }
        error => Error::from(error).into(),
    })
}

/// Read the result of a step, or of one of its tasks, iterations, pages or attempts.
///
/// Returns the latest successful match, or else the latest. References in it are resolved and streamed.
#[utoipa::path(get, path = "/api/result/{id}/{step}", tag = "runs",
    params(("id" = String, Path), ("step" = String, Path), ResultSelector),
    responses((status = 200, description = "`{execution_id, step, result}`", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn step_result(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionSubPath(id, step): ExecutionSubPath,
    QueryParams(selector): QueryParams<ResultSelector>,
) -> Result<Response, ApiError> {
    find_row(&api, id).await?;
    let address = ResultAddress {
        step: Some(Name::from(step.as_str())),
        selector,
        visit: None,
    };
    let reader = api.server.reader();
    let located = reader.find(id, &address).await?;
    let located = located.ok_or_else(|| {
        let detail = format!("run {id} has no such result at step `{step}`");
        ApiError::not_found("RESULT_NOT_FOUND", detail)
            .with_remedy("GET /api/result/{id}/list?step=… lists the results of a step")
    })?;
    let pieces = reader.stream_json(located).await?;
    let head = json!({"execution_id": id, "step": step}).to_string();
    let head = format!("{},\"result\":", head.trim_end_matches('}'));
    Ok(stream_response(wrap_stream(head, pieces, "}")))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListReferencesParams {
    /// List all results of this step, including inline ones; without it, the references of the run.
    step: Option<String>,
    /// Filter by number of the step run, from 1.
    run: Option<u32>,
    /// Filter by task label.
    task: Option<String>,
    /// Filter by iteration, from 0.
    iteration: Option<u64>,
    /// Filter by page.
    page: Option<i64>,
    /// Filter by attempt, from 1; without it, the final outcome of each task.
    attempt: Option<u32>,
    /// Only results of events after this `seq`.
    after_seq: Option<u64>,
    /// Only results of events up to this `seq`.
    until_seq: Option<u64>,
    /// Maximum number of results. Default: 50.
    limit: Option<usize>,
}

/// List the matching results of a step, or all references in the log of a run.
#[utoipa::path(get, path = "/api/result/{id}/list", tag = "runs", params(("id" = String, Path), ListReferencesParams),
    responses((status = 200, description = "a page of results, oldest first", body = ReferenceList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<ListReferencesParams>,
) -> ApiResult<ReferenceList> {
    find_row(&api, id).await?;
    let limit = page_limit(params.limit)?;
    let selector = ResultSelector {
        run: params.run,
        task: params.task.map(Name::from),
        iteration: params.iteration,
        page: params.page,
        attempt: params.attempt,
    };
    if params.step.is_none() && selector != ResultSelector::default() {
        let detail = "`step` is required with the other filters";
        return Err(ApiError::invalid("PARAMETER_INVALID", detail));
    }
    let address = ResultAddress {
        step: params.step.map(Name::from),
        selector,
        visit: None,
    };
    let after = Seq(params.after_seq.unwrap_or(0));
    let mut entries = api.server.reader().list_references(id, &address, after, limit).await?;
    if let Some(until) = params.until_seq.map(Seq) {
        entries.retain_until(until);
    }
    Ok(Json(ReferenceList {
        execution_id: id,
        results: entries.entries,
        next_after_seq: entries.next,
    }))
}
