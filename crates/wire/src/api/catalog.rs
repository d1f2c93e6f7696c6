//! Playbooks in the catalog.

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::graph::PlaybookGraph;

/// A playbook to register.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RegisterRequest {
    /// YAML text of the playbook.
    pub content: String,
    /// Resource type; only playbooks are supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<String>,
    /// Catalog path. Default: the path in the playbook's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A registered playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisterResponse {
    /// Catalog path.
    pub path: String,
    /// Version, from 1 for each path; registering the same text again keeps the version.
    pub version: u32,
    /// SHA-256 of the text.
    pub hash: String,
    /// `path@version`.
    pub catalog_id: String,
}

/// A playbook in the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookEntry {
    /// Catalog path.
    pub path: String,
    /// Version, from 1 for each path.
    pub version: u32,
    /// SHA-256 of the text.
    pub hash: String,
    /// `path@version`.
    pub catalog_id: String,
    /// When it was registered.
    #[schema(value_type = String, format = DateTime)]
    pub registered_at: Time,
    /// YAML text of the playbook; omitted in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// All catalog paths with their latest versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CatalogList {
    /// Entries, sorted by path.
    pub entries: Vec<PlaybookEntry>,
}

/// Identifies a catalog entry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CatalogEntryRequest {
    /// Catalog path.
    pub path: String,
    /// Version. Default: the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A playbook to validate.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValidateRequest {
    /// YAML text of the playbook.
    pub content: String,
    /// Whether the response contains the graph of the text.
    #[serde(default)]
    pub graph: bool,
}

/// Result of a validation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValidateResponse {
    /// Whether the playbook can run.
    pub valid: bool,
    /// Errors and warnings, in the order of the text.
    pub diagnostics: Vec<DiagnosticEntry>,
    /// The graph of what could be read in spite of errors, if the request asks for it. Absent if the text is not
    /// YAML, contains no playbook, or has more than 2,000 steps or 10,000 arcs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<PlaybookGraph>,
}

/// An error, warning or note about a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosticEntry {
    /// Whether the playbook can still be used.
    pub severity: DiagnosticSeverity,
    /// Stable code, which `GET /api/language` explains.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// Name of the text; for a text that is not registered, `playbook.yaml`.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Text next to the position; may be empty.
    pub label: String,
    /// What to do, one entry per line.
    pub help: Vec<String>,
}

/// Whether a playbook is usable in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosticSeverity {
    /// The playbook cannot be used.
    Error,
    /// The playbook probably does not do what its author expects.
    Warning,
    /// The playbook does what its author expects.
    Note,
}
