//! Bodies: kept for workers that have no store of their own, and handed out again.

use std::io;

use axum::body::Body as RequestBody;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use model::result_ref::ResultRef;
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;
use wire::api::BodyStored;

use crate::api::access::{Authorized, Work};
use crate::api::error::{ApiError, Failures};
use crate::api::extract::Body;
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::error::Error;

/// The largest body that is taken through the API.
const BODY_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Keep a body. When this answers it is durable.
#[utoipa::path(put, path = "/api/bodies", tag = "workers",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "where it is", body = BodyStored), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn put(
    State(api): State<Api>,
    _may: Authorized<Work>,
    body: RequestBody,
) -> Answer<BodyStored> {
    let chunks = body.into_data_stream().map_err(io::Error::other);
    // One byte more than is allowed tells a body that is too large from one that just fits.
    let mut reader = StreamReader::new(chunks).take(BODY_BYTES_MAX + 1);
    let source = ::results::Source::Stream(&mut reader);
    let stored = api
        .server
        .shared
        .bodies
        .put(source)
        .await
        .map_err(Error::from)?;
    if stored.bytes > BODY_BYTES_MAX {
        let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
        let detail = format!("a body has at most {BODY_BYTES_MAX} bytes");
        return Err(ApiError::new(status, "BODY_TOO_LARGE", detail));
    }
    Ok(Json(BodyStored {
        sha256: stored.sha256,
        bytes: stored.bytes,
        store: stored.store.to_owned(),
        location: stored.location,
    }))
}

/// Read a body that a reference names.
#[utoipa::path(post, path = "/api/bodies/read", tag = "workers", request_body(content = Object),
    responses((status = 200, description = "its bytes", content_type = "application/octet-stream", body = Vec<u8>), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn read(
    State(api): State<Api>,
    _may: Authorized<Work>,
    Body(reference): Body<ResultRef>,
) -> Result<Response, ApiError> {
    let bytes = api.server.shared.bodies.get(&reference).await;
    let bytes = bytes.map_err(Error::from)?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}
