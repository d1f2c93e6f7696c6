//! Playbooks as the catalog keeps them.

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A text to register.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RegisterRequest {
    /// The text.
    pub content: String,
    /// What it is; playbooks are all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<String>,
    /// Where it is kept; the path it gives itself if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A text is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// Where it is kept.
    pub path: String,
    /// Counts the path's texts from 1; the same text again keeps its number.
    pub version: u32,
    /// The sha256 of the text.
    pub hash: String,
    /// `path@version`.
    pub catalog_id: String,
}

/// A playbook in the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookEntry {
    /// Where it is kept.
    pub path: String,
    /// Counts the path's texts from 1.
    pub version: u32,
    /// The sha256 of the text.
    pub hash: String,
    /// `path@version`.
    pub catalog_id: String,
    /// When it was registered.
    #[schema(value_type = String, format = DateTime)]
    pub registered_at: Time,
    /// The text; left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Every path with its latest version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CatalogList {
    /// The entries, by path.
    pub entries: Vec<PlaybookEntry>,
}

/// Which entry is meant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PathRequest {
    /// Where it is kept.
    pub path: String,
    /// Which version; the latest if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A text to check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValidateRequest {
    /// The text.
    pub content: String,
}

/// What was found in a text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Validated {
    /// Whether it can run.
    pub valid: bool,
    /// Errors and warnings, in the order of the text.
    #[schema(value_type = Vec<Object>)]
    pub diagnostics: Vec<serde_json::Value>,
}
