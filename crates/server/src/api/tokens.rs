//! Access tokens: create, list and revoke them; and the audit log.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use wire::api::{AccessTokenList, AuditPage, CreateAccessTokenRequest, CreateAccessTokenResponse};

use crate::api::access::{Administer, AuditedAdmin, Authorized};
use crate::api::error::ErrorResponses;
use crate::api::executions::page_limit;
use crate::api::extract::{JsonBody, PathParam, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Create an access token. The response is the only one that contains it.
#[utoipa::path(post, path = "/api/tokens", tag = "tokens", request_body = CreateAccessTokenRequest,
    responses((status = 200, description = "the token", body = CreateAccessTokenResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn create(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    JsonBody(request): JsonBody<CreateAccessTokenRequest>,
) -> ApiResult<CreateAccessTokenResponse> {
    let created = api.server.create_access_token(&request, actor).await;
    Ok(Json(created?))
}

/// List access tokens, without their texts.
#[utoipa::path(get, path = "/api/tokens", tag = "tokens",
    responses((status = 200, description = "the tokens", body = AccessTokenList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn list(State(api): State<ApiState>, _caller: Authorized<Administer>) -> ApiResult<AccessTokenList> {
    let tokens = api.server.access_tokens().await?;
    Ok(Json(AccessTokenList { tokens }))
}

/// Revoke an access token. It takes effect on all servers within 2 seconds.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 200, description = "the token is revoked", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn revoke(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    PathParam(id): PathParam,
) -> ApiResult<Value> {
    api.server.revoke_access_token(&id, actor).await?;
    api.tokens.clear();
    Ok(Json(json!({ "id": id, "revoked": true })))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditParams {
    /// Only entries after this ID.
    after: Option<u64>,
    /// Maximum number of entries. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Read the audit log. Each entry is chained to the previous one by its hash.
#[utoipa::path(get, path = "/api/audit", tag = "tokens", params(AuditParams),
    responses((status = 200, description = "a page of the audit log", body = AuditPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn audit(
    State(api): State<ApiState>,
    _caller: Authorized<Administer>,
    QueryParams(params): QueryParams<AuditParams>,
) -> ApiResult<AuditPage> {
    let limit = page_limit(params.limit)?;
    let after = params.after.unwrap_or(0).min(i64::MAX.unsigned_abs());
    let rows = api.store().audit_entries(after, limit).await?;
    let next_after = (rows.len() == limit).then(|| rows.last().map(|row| row.id)).flatten();
    let entries = rows.iter().map(|row| {
        json!({
            "id": row.id,
            "at": row.recorded_at,
            "actor": row.entry.actor,
            "action": row.entry.action,
            "resource": row.entry.resource,
            "outcome": row.entry.outcome,
            "source": row.entry.source,
            "detail": row.entry.detail,
            "hash": hex::encode(row.hash),
        })
    });
    Ok(Json(AuditPage {
        entries: entries.collect(),
        next_after,
    }))
}
