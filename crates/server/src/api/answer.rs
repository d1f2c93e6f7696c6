//! What every handler of data answers with: JSON, or a problem.

use axum::Json;

use crate::api::error::ApiError;

/// What a handler answers.
pub(crate) type Answer<T> = Result<Json<T>, ApiError>;
