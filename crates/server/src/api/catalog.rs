//! The catalog: registers, lists, reads and validates playbooks.

use axum::extract::State;
use language::playbook::Playbook;
use serde_json::{Value, json};
use store::CatalogEntry;
use wire::api::{
    CatalogEntryRequest, CatalogList, PlaybookEntry, RegisterRequest, RegisterResponse, ValidateRequest,
    ValidateResponse,
};

use crate::api::access::{Author, Authorized, View};
use crate::api::error::{self, ApiError, ErrorResponses};
use crate::api::extract::{JsonBody, PathParam};
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

fn parse_playbook(text: &str) -> Result<Playbook, ApiError> {
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
    entry.ok_or_else(|| {
        let detail = match version {
            Some(version) => format!("playbook `{path}` has no version {version} in the catalog"),
            None => format!("playbook `{path}` is not in the catalog"),
        };
        ApiError::not_found("PLAYBOOK_NOT_FOUND", detail)
    })
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

/// Read a JSON schema for a form of the playbook's inputs, derived from its `workload`.
#[utoipa::path(get, path = "/api/catalog/{path}/ui_schema", tag = "catalog", params(("path" = String, Path)),
    responses((status = 200, description = "the schema", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn ui_schema(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    PathParam(path): PathParam,
) -> ApiResult<Value> {
    let entry = find_entry(&api, &path, None).await?;
    let playbook = parse_playbook(&entry.text)?;
    let mut schema = infer_schema(&Value::Object(playbook.workload));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(playbook.name);
    Ok(Json(json!({
        "path": entry.path,
        "version": entry.version,
        "description": playbook.description,
        "schema": schema,
    })))
}

/// JSON schema of a value that is its own default.
fn infer_schema(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            let properties: serde_json::Map<String, Value> = fields
                .map(|(name, value)| (name.clone(), infer_schema(value)))
                .collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Array(items) => {
            let items_schema = items.first().map_or(json!({}), infer_schema);
            json!({"type": "array", "items": items_schema, "default": items})
        }
        Value::String(text) => json!({"type": "string", "default": text}),
        Value::Bool(flag) => json!({"type": "boolean", "default": flag}),
        Value::Number(number) if number.is_f64() => json!({"type": "number", "default": number}),
        Value::Number(number) => json!({"type": "integer", "default": number}),
        Value::Null => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_becomes_a_form_with_its_defaults() {
        let workload = json!({"region": "eu", "limit": 3, "tags": ["a"], "deep": {"on": true}});
        let schema = infer_schema(&workload);
        assert_eq!(
            schema["properties"]["region"],
            json!({"type": "string", "default": "eu"})
        );
        assert_eq!(schema["properties"]["limit"]["type"], "integer");
        assert_eq!(schema["properties"]["tags"]["items"]["type"], "string");
        assert_eq!(schema["properties"]["deep"]["properties"]["on"]["default"], true);
    }
}
