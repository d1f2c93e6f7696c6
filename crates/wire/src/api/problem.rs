//! Errors as they leave: problem details with a stable code.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub type_: String,
    /// What the status means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What is wrong with this very request.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Every finding, where there are several: diagnostics of a playbook, events of a batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub errors: Vec<serde_json::Value>,
}
