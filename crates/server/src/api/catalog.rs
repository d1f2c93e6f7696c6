//! The catalog: registers, lists, reads and validates playbooks.

use axum::extract::State;
use language::diagnostic::{Diagnostic, Severity};
use language::playbook::Playbook;
use store::CatalogEntry;
use wire::api::{
    CatalogEntryRequest, CatalogList, DiagnosticEntry, DiagnosticSeverity, PlaybookEntry, RegisterRequest,
    RegisterResponse, ValidateRequest, ValidateResponse,
};

use crate::api::access::{Author, Authorized, View};
use crate::api::error::{self, ApiError, ErrorResponses};
use crate::api::extract::JsonBody;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::playbook_graph::build_playbook_graph;

/// Maximum length of a path in bytes.
const PATH_MAX: usize = 512;
/// Maximum number of steps in the graph of a text; a larger text has no graph.
const GRAPH_STEPS_MAX: usize = 2_000;
/// Maximum number of arcs in the graph of a text; a text with more has no graph.
const GRAPH_ARCS_MAX: usize = 10_000;

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

/// Validate a playbook without registering it. Returns all errors and warnings with their positions and, on request,
/// the graph of the text.
#[utoipa::path(post, path = "/api/catalog/playbooks/validate", tag = "catalog", request_body = ValidateRequest,
    responses((status = 200, description = "the diagnostics", body = ValidateResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn validate(
    State(_): State<ApiState>,
    _caller: Authorized<View>,
    JsonBody(request): JsonBody<ValidateRequest>,
) -> ApiResult<ValidateResponse> {
    let check = tokio::task::spawn_blocking(move || check_playbook(&request));
    Ok(Json(check.await.expect("checking a text does not panic")))
}

/// Checks a text. The cost is linear in its size, of which the parser accepts at most 1 MiB.
fn check_playbook(request: &ValidateRequest) -> ValidateResponse {
    let parsed = language::playbook::parse_draft("playbook.yaml", request.content.as_bytes());
    let draft = parsed.draft.as_ref().filter(|_| request.graph);
    ValidateResponse {
        valid: !parsed.has_errors(),
        graph: draft.filter(|draft| is_drawable(draft)).map(build_playbook_graph),
        diagnostics: parsed.diagnostics.iter().map(diagnostic_entry).collect(),
    }
}

/// Whether the graph of a draft is small enough for a response.
fn is_drawable(draft: &Playbook) -> bool {
    let arcs: usize = draft.steps.iter().map(|step| step.next.arcs.len()).sum();
    draft.steps.len() <= GRAPH_STEPS_MAX && arcs <= GRAPH_ARCS_MAX
}

fn diagnostic_entry(diagnostic: &Diagnostic) -> DiagnosticEntry {
    DiagnosticEntry {
        severity: match diagnostic.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
            Severity::Note => DiagnosticSeverity::Note,
        },
        code: diagnostic.code.to_owned(),
        message: diagnostic.message.clone(),
        file: diagnostic.source.name.to_string(),
        line: diagnostic.span.line,
        column: diagnostic.span.column,
        label: diagnostic.label.clone(),
        help: diagnostic.help.clone(),
    }
}
