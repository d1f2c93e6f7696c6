//! Results: found by step, task, iteration, page and attempt; listed; and resolved by their address.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use model::id::{Name, Seq};
use model::result_ref::ResultRef;
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use wire::Pieces;
use wire::api::{ReferenceList, ResultPlace};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, Failures};
use crate::api::executions::{page, row};
use crate::api::extract::{Id, IdAnd, Params};
use crate::api::state::Api;
use crate::api::{Answer, Json, range};
use crate::error::Error;
use crate::reading::{Found, ResultAddress, between};

/// How the address of a result begins.
const SCHEME: &str = "noetl://execution/";

/// What is wanted of a manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// What its parts come to.
    #[default]
    Value,
    /// The manifest itself, with the address of each part.
    Manifest,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveParams {
    /// The address, `noetl://execution/…`, or the whole reference as JSON.
    #[serde(rename = "ref")]
    reference: String,
    /// Of a manifest: `value`, what its parts come to, or `manifest`, the list of their addresses.
    #[serde(default)]
    #[param(inline)]
    form: Form,
}

/// Read what is behind a reference, or the part of a body that `Range` asks for.
#[utoipa::path(get, path = "/api/result/resolve", tag = "runs", params(ResolveParams),
    responses((status = 200, description = "its bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "some of its bytes", content_type = "application/octet-stream", body = Vec<u8>),
        Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn resolve(
    State(api): State<Api>,
    _may: Authorized<View>,
    headers: HeaderMap,
    Params(params): Params<ResolveParams>,
) -> Result<Response, ApiError> {
    let found = if params.reference.trim_start().starts_with('{') {
        let reference: ResultRef = serde_json::from_str(&params.reference)
            .map_err(|error| ApiError::invalid("REFERENCE_INVALID", error.to_string()))?;
        Found::behind(reference)
    } else {
        find(&api, &params.reference).await?
    };
    let reader = api.server.reader();
    match (&found, params.form) {
        (Found::Body(reference), _) => {
            let range = range::wanted(&headers, reference.meta.bytes)?;
            let is_part = range.is_some();
            let reading = api.server.shared.bodies.read(reference, range).await;
            let reading = reading.map_err(|error| {
                if error.is_missing() {
                    ApiError::not_found(error.code(), error.told_of(reference))
                } else {
                    Error::from(error).into()
                }
            })?;
            let type_ = &reference.meta.content_type;
            Ok(range::answer(reading, type_, is_part))
        }
        (Found::Manifest(reference, rule), Form::Manifest) => {
            let pieces = reader.listed(reference, rule).await?;
            Ok(streamed(pieces))
        }
        _ => {
            let pieces = reader.pieces(found).await?;
            Ok(streamed(pieces))
        }
    }
}

/// JSON text that is sent as it is read.
pub(crate) fn streamed(pieces: Pieces) -> Response {
    let body = Body::from_stream(pieces);
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// What is at this address, in the run that it names.
async fn find(api: &Api, uri: &str) -> Result<Found, ApiError> {
    if !uri.starts_with(SCHEME) {
        let detail = format!("`{uri}` is not the address of a result");
        return Err(ApiError::invalid("REFERENCE_INVALID", detail)
            .remedy("give `noetl://execution/<id>/step/…`, or the whole reference as JSON"));
    }
    if model::manifest::execution_of(uri).is_none() {
        let detail = format!("`{uri}` names no execution");
        return Err(ApiError::invalid("ID_INVALID", detail));
    }
    let found = api.server.reader().resolve(uri).await?;
    found.ok_or_else(|| {
        let detail = format!("nothing has the address `{uri}`");
        ApiError::not_found("REFERENCE_NOT_AVAILABLE", detail)
            .remedy("GET /api/result/{id}/list lists the results of a run")
    })
}

/// The result of a step, or of one of its tasks, iterations, pages or attempts: the latest that ended well, else the
/// latest. References in it are resolved, piece by piece.
#[utoipa::path(get, path = "/api/result/{id}/{step}", tag = "runs",
    params(("id" = String, Path), ("step" = String, Path), ResultPlace),
    responses((status = 200, description = "`{execution_id, step, result}`", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn step_result(
    State(api): State<Api>,
    _may: Authorized<View>,
    IdAnd(id, step): IdAnd,
    Params(place): Params<ResultPlace>,
) -> Result<Response, ApiError> {
    row(&api, id).await?;
    let wanted = ResultAddress {
        step: Some(Name::from(step.as_str())),
        place,
        visit: None,
    };
    let reader = api.server.reader();
    let found = reader.find(id, &wanted).await?;
    let found = found.ok_or_else(|| {
        let detail = format!("step `{step}` has no such result in execution {id}");
        ApiError::not_found("RESULT_NOT_FOUND", detail)
            .remedy("GET /api/result/{id}/list?step=… lists the results of a step")
    })?;
    let pieces = reader.json_pieces(found).await?;
    let head = json!({"execution_id": id, "step": step}).to_string();
    let head = format!("{},\"result\":", head.trim_end_matches('}'));
    Ok(streamed(between(head, pieces, "}")))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// All results of this step, inline ones too; without it, the references of the run.
    step: Option<String>,
    /// Of this run of the step, from 1.
    run: Option<u32>,
    /// Of this task.
    task: Option<String>,
    /// Of this iteration, from 0.
    iteration: Option<u64>,
    /// Of this page.
    page: Option<i64>,
    /// Of this try, from 1; without it, what each task came to.
    attempt: Option<u32>,
    /// Those after this event.
    after_seq: Option<u64>,
    /// At most so many.
    limit: Option<usize>,
}

/// List the results of a step that fit, or the references that a run's log holds.
#[utoipa::path(get, path = "/api/result/{id}/list", tag = "runs", params(("id" = String, Path), ListParams),
    responses((status = 200, description = "a page of them, oldest first", body = ReferenceList), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    _may: Authorized<View>,
    Id(id): Id,
    Params(params): Params<ListParams>,
) -> Answer<ReferenceList> {
    row(&api, id).await?;
    let limit = page(params.limit)?;
    let place = ResultPlace {
        run: params.run,
        task: params.task.map(Name::from),
        iteration: params.iteration,
        page: params.page,
        attempt: params.attempt,
    };
    if params.step.is_none() && place != ResultPlace::default() {
        let detail = "`step` is missing: results are found within a step";
        return Err(ApiError::invalid("PARAMETER_INVALID", detail));
    }
    let wanted = ResultAddress {
        step: params.step.map(Name::from),
        place,
        visit: None,
    };
    let after = Seq(params.after_seq.unwrap_or(0));
    let listed = api.server.reader().list(id, &wanted, after, limit).await?;
    Ok(Json(ReferenceList {
        execution_id: id,
        results: listed.entries,
        next_after_seq: listed.next,
    }))
}
