//! Request extractors for bodies, parameters and IDs. Rejections are `ApiError`s.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use model::id::ExecutionId;
use serde::de::DeserializeOwned;

use crate::api::error::ApiError;

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_json_content_type(request.headers())?;
        let bytes = read_bytes(request, state).await?;
        parse_json(&bytes).map(Self)
    }
}

/// An optional JSON body. The content type is required even without a body, because pages of other sites cannot send
/// it without a CORS preflight request.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_json_content_type(request.headers())?;
        let bytes = read_bytes(request, state).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        parse_json(&bytes).map(Self)
    }
}

/// Query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|Query(params)| Self(params))
            .map_err(|error| ApiError::invalid("PARAMETER_INVALID", error.body_text()))
    }
}

/// Run ID in the path.
pub(crate) struct ExecutionPath(pub(crate) ExecutionId);

impl<S: Send + Sync> FromRequestParts<S> for ExecutionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = path_param(parts, state).await?;
        parse_execution_id(&text).map(Self)
    }
}

/// Run ID in the path, and the next segment.
pub(crate) struct ExecutionSubPath(pub(crate) ExecutionId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for ExecutionSubPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((text, segment)) = path.map_err(|error| ApiError::invalid("PATH_INVALID", error.body_text()))?;
        Ok(Self(parse_execution_id(&text)?, segment))
    }
}

/// One path segment.
pub(crate) struct PathParam(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathParam {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = path_param(parts, state).await?;
        Ok(Self(text))
    }
}

/// Two path segments.
pub(crate) struct PathParamPair(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathParamPair {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((first, second)) = path.map_err(|error| ApiError::invalid("PATH_INVALID", error.body_text()))?;
        Ok(Self(first, second))
    }
}

async fn path_param<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Path<String>, ApiError> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map_err(|error| ApiError::invalid("PATH_INVALID", error.body_text()))
}

/// Parses a run ID.
pub(crate) fn parse_execution_id(text: &str) -> Result<ExecutionId, ApiError> {
    text.parse()
        .map_err(|_| ApiError::invalid("ID_INVALID", format!("invalid run ID `{text}`")))
}

fn check_json_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let type_ = headers.get(header::CONTENT_TYPE);
    let type_ = type_.and_then(|value| value.to_str().ok()).unwrap_or("");
    let media_type = type_.split(';').next().unwrap_or("").trim();
    if media_type.eq_ignore_ascii_case("application/json") || media_type.ends_with("+json") {
        return Ok(());
    }
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let detail = "the request has no JSON content type, which is required even without a body";
    Err(ApiError::new(status, "NOT_JSON", detail).with_remedy("send `Content-Type: application/json`"))
}

async fn read_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    let bytes = Bytes::from_request(request, state).await;
    bytes.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = "the request body is too large for this endpoint";
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", detail)
        }
        _ => ApiError::new(StatusCode::BAD_REQUEST, "BODY_BROKEN", error.body_text()),
    })
}

/// Parses JSON; the error has the position.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| ApiError::invalid("BODY_INVALID", error.to_string()))
}
