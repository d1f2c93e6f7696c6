//! Error responses: problem details with a stable code.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Reference to the explanation of the code.
    #[serde(rename = "type")]
    pub type_: String,
    /// Meaning of the status.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Stable error code.
    pub code: String,
    /// What is wrong with this request.
    pub detail: String,
    /// How to fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// All individual errors, if there are several: diagnostics of a playbook, events of a batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub errors: Vec<serde_json::Value>,
}
