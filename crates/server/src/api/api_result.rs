//! Result type of handlers: JSON or a problem.

use axum::Json;

use crate::api::error::ApiError;

/// Result of a handler.
pub(crate) type ApiResult<T> = Result<Json<T>, ApiError>;
