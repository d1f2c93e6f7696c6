//! The language of playbooks for editors: reference, completion and hover texts.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use language::completion::{
    self, COMPLETIONS_MAX, Completion, CompletionKind, CompletionList, ExternalNames, Position,
};
use sha2::{Digest, Sha256};
use wire::api::{CompletionResponse, HoverResponse, LanguagePositionRequest, LanguageReference};

use crate::api::access::{Administer, Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::JsonBody;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::language_reference::{build_language_reference, completion_response, hover_entry};

/// The reference as JSON with its entity tag. It depends on the version of the server only.
static REFERENCE: LazyLock<(String, String)> = LazyLock::new(|| {
    let reference = build_language_reference();
    let text = serde_json::to_string(&reference).expect("the reference serializes to JSON");
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&text)[..16]));
    (text, tag)
});

/// Read the language of playbooks: keys, tool kinds, names, filters and tests of templates, and codes of diagnostics.
/// The response has an `ETag`; with the same value in `If-None-Match` it is 304 without a body.
#[utoipa::path(get, path = "/api/language", tag = "catalog",
    responses((status = 200, description = "the language", body = LanguageReference),
        (status = 304, description = "the caller has the current version"), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn reference(_caller: Authorized<View>, headers: HeaderMap) -> Response {
    let (text, tag) = &*REFERENCE;
    let cached = headers.get_all(IF_NONE_MATCH).iter();
    let mut cached = cached
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let caching = [(ETAG, tag.as_str()), (CACHE_CONTROL, "private, no-cache")];
    if cached.any(|value| value.trim().trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

/// List what can be written at a position of a playbook. The text may be broken. The cost is linear in the text and,
/// for paths of playbooks and names of credentials, in their number. Only admins get names of credentials.
#[utoipa::path(post, path = "/api/language/complete", tag = "catalog", request_body = LanguagePositionRequest,
    responses((status = 200, description = "the completions", body = CompletionResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn complete(
    State(api): State<ApiState>,
    caller: Authorized<View>,
    JsonBody(request): JsonBody<LanguagePositionRequest>,
) -> ApiResult<CompletionResponse> {
    let position = position_of(&request);
    let list = tokio::task::spawn_blocking(move || completion::complete(&request.text, position));
    let mut list = list.await.expect("completing a text does not panic");
    let names = match list.external {
        Some(ExternalNames::Playbooks) => playbook_paths(&api).await?,
        Some(ExternalNames::Credentials) if caller.check_also::<Administer>().is_ok() => {
            let credentials = api.server.credentials().await?;
            credentials.into_iter().map(|credential| credential.name).collect()
        }
        _ => Vec::new(),
    };
    add_names(&mut list, &names);
    Ok(Json(completion_response(list)))
}

/// Describe the word at a position of a playbook. The text may be broken. The cost is linear in the text.
#[utoipa::path(post, path = "/api/language/hover", tag = "catalog", request_body = LanguagePositionRequest,
    responses((status = 200, description = "the description", body = HoverResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn hover(
    _caller: Authorized<View>,
    JsonBody(request): JsonBody<LanguagePositionRequest>,
) -> ApiResult<HoverResponse> {
    let position = position_of(&request);
    let hover = tokio::task::spawn_blocking(move || completion::hover(&request.text, position));
    let hover = hover.await.expect("describing a word does not panic");
    Ok(Json(HoverResponse {
        hover: hover.map(hover_entry),
    }))
}

fn position_of(request: &LanguagePositionRequest) -> Position {
    Position {
        line: request.line,
        column: request.column,
    }
}

async fn playbook_paths(api: &ApiState) -> Result<Vec<String>, ApiError> {
    let entries = api.store().catalog().await?;
    Ok(entries.iter().map(|entry| entry.path.to_string()).collect())
}

/// Adds names that are not in the text, up to the limit.
fn add_names(list: &mut CompletionList, names: &[String]) {
    let count = list.completions.len();
    list.is_complete &= count + names.len() <= COMPLETIONS_MAX;
    let names = names.iter().take(COMPLETIONS_MAX.saturating_sub(count));
    let names = names.map(|name| Completion::new(name, CompletionKind::Name, ""));
    list.completions.extend(names);
}
