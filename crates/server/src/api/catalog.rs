//! The catalog: registers, lists, reads and validates playbooks.

use axum::extract::State;
use language::playbook::Playbook;
use store::CatalogEntry;
use wire::api::{
    CatalogEntryRequest, CatalogList, PlaybookEntry, RegisterRequest, RegisterResponse, ValidateRequest,
    ValidateResponse,
};

use crate::api::access::{Author, Authorized, View};
use crate::api::error::{self, ApiError, ErrorResponses};
use crate::api::extract::JsonBody;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Maximum length of a path in bytes.
const PATH_MAX: usize = 512;

/// Register a playbook. Registering the same text again does not create a new version.
#[utoipa::path(post, path = "/api/catalog/register", tag = "catalog", request_body = RegisterRequest,
    responses((status = 200, description = "the playbook is registered", body = RegisterResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("author"))))]
pub(crate) async fn register(
    State(api): State<ApiState>,
    _caller: Authorized<Author>,
    JsonBody(request): JsonBody<RegisterRequest>,
) -> ApiResult<RegisterResponse> {
    if let Some(kind) = &request.resource_type
        && !kind.eq_ignore_ascii_case("playbook")
    {
        let detail = format!("resource type `{kind}` is not supported");
        return Err(ApiError::invalid("RESOURCE_TYPE_UNKNOWN", detail).with_remedy("use `playbook`"));
    }
    let path = match request.path {
        Some(path) => path,
        None => playbook_path(&request.content)?,
    };
    if path.is_empty() || path.len() > PATH_MAX || path.contains(['\0', '@']) {
        let detail = format!("invalid catalog path `{path}`");
        return Err(ApiError::invalid("PATH_INVALID", detail).with_remedy("use 1 to 512 bytes without NUL and `@`"));
    }
    let entry = api.server.register(&path, &request.content).await?.entry;
    Ok(Json(RegisterResponse {
        catalog_id: catalog_id(&entry),
        path: entry.path.to_string(),
        version: entry.version,
        hash: entry.hash.to_string(),
    }))
}

/// Path in the playbook's own metadata.
pub(crate) fn playbook_path(text: &str) -> Result<String, ApiError> {
    Ok(parse_playbook(text)?.path.to_string())
}

/// Parses a text, or returns its diagnostics.
pub(crate) fn parse_playbook(text: &str) -> Result<Playbook, ApiError> {
    let parsed = language::playbook::parse("playbook.yaml", text.as_bytes());
    parsed
        .playbook
        .ok_or_else(|| error::invalid_playbook(&parsed.diagnostics))
}

fn catalog_id(entry: &CatalogEntry) -> String {
    format!("{}@{}", entry.path, entry.version)
}

fn to_entry(entry: &CatalogEntry, content: Option<String>) -> PlaybookEntry {
    PlaybookEntry {
        path: entry.path.to_string(),
        version: entry.version,
        hash: entry.hash.to_string(),
        catalog_id: catalog_id(entry),
        registered_at: entry.registered_at,
        content,
    }
}

/// List all playbooks with their latest versions.
#[utoipa::path(post, path = "/api/catalog/list", tag = "catalog",
    responses((status = 200, description = "the entries", body = CatalogList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(State(api): State<ApiState>, _caller: Authorized<View>) -> ApiResult<CatalogList> {
    let entries = api.store().catalog().await?;
    let entries = entries.iter().map(|entry| to_entry(entry, None)).collect();
    Ok(Json(CatalogList { entries }))
}

async fn find_entry(api: &ApiState, path: &str, version: Option<u32>) -> Result<CatalogEntry, ApiError> {
    let entry = api.store().catalog_entry(path, version).await?;
    entry.ok_or_else(|| missing_playbook(path, version))
}

/// Error for a playbook, or a version of one, that is not registered.
pub(crate) fn missing_playbook(path: &str, version: Option<u32>) -> ApiError {
    let detail = match version {
        Some(version) => format!("playbook `{path}` has no version {version} in the catalog"),
        None => format!("playbook `{path}` is not in the catalog"),
    };
    ApiError::not_found("PLAYBOOK_NOT_FOUND", detail)
}

/// Read a version of a playbook, or its latest.
#[utoipa::path(post, path = "/api/catalog/resource", tag = "catalog", request_body = CatalogEntryRequest,
    responses((status = 200, description = "the entry with its text", body = PlaybookEntry), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn resource(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    JsonBody(request): JsonBody<CatalogEntryRequest>,
) -> ApiResult<PlaybookEntry> {
    let entry = find_entry(&api, &request.path, request.version).await?;
    Ok(Json(to_entry(&entry, Some(entry.text.to_string()))))
}

/// Validate a playbook without registering it. Returns all errors and warnings with their positions.
#[utoipa::path(post, path = "/api/catalog/playbooks/validate", tag = "catalog", request_body = ValidateRequest,
    responses((status = 200, description = "the diagnostics", body = ValidateResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn validate(
    State(_): State<ApiState>,
    _caller: Authorized<View>,
    JsonBody(request): JsonBody<ValidateRequest>,
) -> ApiResult<ValidateResponse> {
    let parsed = language::playbook::parse("playbook.yaml", request.content.as_bytes());
    let diagnostics = parsed.diagnostics.iter();
    let diagnostics = diagnostics.filter_map(|diagnostic| serde_json::to_value(diagnostic).ok());
    Ok(Json(ValidateResponse {
        valid: !parsed.has_errors(),
        diagnostics: diagnostics.collect(),
    }))
}
