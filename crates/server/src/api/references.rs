//! Results: found by step, task, iteration, page and attempt; listed; and resolved by their address.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt as _;
use model::event::At;
use model::id::{Name, Seq};
use model::playbook::ResultControl;
use model::result_ref::ResultRef;
use serde::Deserialize;
use serde_json::json;
use tokio_util::io::StreamReader;
use utoipa::{IntoParams, ToSchema};
use wire::Pieces;
use wire::api::{ReferenceList, ResultPlace};

use crate::api::access::{Authorized, View, Work};
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

/// The largest result that is put.
const PUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutParams {
    /// The step whose result it is.
    step: String,
    /// The task.
    task: String,
    /// The run of the step, from 1.
    run: Option<u32>,
    /// The iteration, from 0.
    iteration: Option<u64>,
    /// The try, from 1.
    attempt: Option<u32>,
}

/// Keep a result for a run, for whoever reports what it came to: the answer is the reference that an event may carry. When
/// this answers the body is durable; nothing else of the run changes.
#[utoipa::path(put, path = "/api/result/{id}", tag = "workers", params(("id" = String, Path), PutParams),
    request_body(content = Object, description = "JSON of any form, up to 64 MiB"),
    responses((status = 200, description = "the reference", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn put(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Id(id): Id,
    Params(params): Params<PutParams>,
    body: Body,
) -> Answer<ResultRef> {
    row(&api, id).await?;
    let at = At {
        step: Some(Name::from(params.step.as_str())),
        run: params.run.unwrap_or(1),
        iteration: params.iteration,
        task: Some(Name::from(params.task.as_str())),
        visit: 1,
        attempt: params.attempt.unwrap_or(1),
        ..At::default()
    };
    let place = ::results::Place {
        execution: id,
        at: &at,
        now: api.store().now(),
    };
    let keeper = ::results::Keeper {
        bodies: api.server.shared.bodies.clone(),
        control: ResultControl::default(),
        uri: place.uri(),
        bytes_max: PUT_BYTES_MAX,
        missing: ::results::MissingPaths::default(),
    };
    let chunks = body.into_data_stream().map_err(io::Error::other);
    let kept = keeper.keep(&mut StreamReader::new(chunks)).await;
    kept.map(Json).map_err(|error| match error {
        ::results::Error::TooLarge { .. } => {
            let detail = format!("a result has at most {PUT_BYTES_MAX} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", detail)
                .remedy("put it in parts, or let a worker's task stream it")
        }
        error @ ::results::Error::NotJson(_) => {
            ApiError::invalid("BODY_INVALID", error.to_string()).remedy("send JSON")
        }
        error => Error::from(error).into(),
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
