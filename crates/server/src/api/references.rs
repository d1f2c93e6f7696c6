//! References to bodies: those of a run listed, and one resolved to its bytes.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use model::result_ref::Found;
use serde::Deserialize;
use store::ResultRow;
use utoipa::IntoParams;
use wire::api::{ReferenceEntry, ReferenceList};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, Failures};
use crate::api::extract::{Id, Params};
use crate::api::state::Api;
use crate::api::{Answer, Json, range};
use crate::error::Error;
use crate::lookup;

/// How the address of a result begins.
const SCHEME: &str = "noetl://execution/";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveParams {
    /// The address, `noetl://execution/…`, or the whole reference as JSON.
    #[serde(rename = "ref")]
    reference: String,
}

/// Read the body behind a reference, or the part of it that `Range` asks for.
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
    let reference = if params.reference.trim_start().starts_with('{') {
        serde_json::from_str(&params.reference)
            .map_err(|error| ApiError::invalid("REFERENCE_INVALID", error.to_string()))?
    } else {
        match find(&api, &params.reference).await? {
            Found::Body(reference) => *reference,
            Found::Value(value) => return Ok(Json(value).into_response()),
        }
    };
    let range = range::wanted(&headers, reference.meta.bytes)?;
    let is_part = range.is_some();
    let reading = api.server.shared.bodies.read(&reference, range).await;
    let reading = reading.map_err(|error| {
        if error.is_missing() {
            ApiError::not_found(error.code(), error.told_of(&reference))
        } else {
            Error::from(error).into()
        }
    })?;
    Ok(range::answer(
        reading,
        &reference.meta.content_type,
        is_part,
    ))
}

/// List the references that a run's log holds.
#[utoipa::path(get, path = "/api/result/{id}/list", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "every reference, oldest first", body = ReferenceList), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    _may: Authorized<View>,
    Id(id): Id,
) -> Answer<ReferenceList> {
    if api.store().execution(id).await?.is_none() {
        return Err(Error::NotFound(id).into());
    }
    let rows = api.store().results(id).await?;
    Ok(Json(ReferenceList {
        execution_id: id,
        results: rows.into_iter().map(entry).collect(),
    }))
}

fn entry(row: ResultRow) -> ReferenceEntry {
    ReferenceEntry {
        seq: row.seq,
        step: row.run.step,
        run: row.run.run,
        task: row.task,
        visit: row.visit,
        iteration: row.iteration,
        attempt: row.attempt,
        created_at: row.created_at,
        reference: row.result_ref,
    }
}

/// What an address leads to.
async fn find(api: &Api, uri: &str) -> Result<Found, ApiError> {
    if !uri.starts_with(SCHEME) {
        let detail = format!("`{uri}` is not the address of a result");
        return Err(ApiError::invalid("REFERENCE_INVALID", detail)
            .remedy("give `noetl://execution/<id>/step/…`, or the whole reference as JSON"));
    }
    let found = lookup::look_up(&api.server.shared, uri).await?;
    found.ok_or_else(|| {
        let detail = format!("no result has the address `{uri}`");
        ApiError::not_found("REFERENCE_NOT_AVAILABLE", detail)
            .remedy("GET /api/result/{id}/list lists the bodies of a run")
    })
}
