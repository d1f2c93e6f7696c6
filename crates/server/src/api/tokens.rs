//! Tokens: made, listed and taken back; and the record of what was done with them.

use axum::extract::State;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use wire::api::{AuditPage, TokenCreated, TokenList, TokenRequest};

use crate::api::access::{Administer, Authorized, source};
use crate::api::error::Failures;
use crate::api::executions::page;
use crate::api::extract::{Body, Params, Segment};
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::tokens::Actor;

/// Make a token. It is shown once.
#[utoipa::path(post, path = "/api/tokens", tag = "tokens", request_body = TokenRequest,
    responses((status = 200, description = "the token", body = TokenCreated), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn create(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Body(request): Body<TokenRequest>,
) -> Answer<TokenCreated> {
    let created = api.server.create_token(&request, actor(&may, &parts)).await;
    Ok(Json(created?))
}

fn actor(may: &Authorized<Administer>, parts: &Parts) -> Actor {
    Actor {
        name: may.principal.name(),
        source: source(parts),
    }
}

/// List tokens; what they are is never shown again.
#[utoipa::path(get, path = "/api/tokens", tag = "tokens",
    responses((status = 200, description = "the tokens", body = TokenList), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    _may: Authorized<Administer>,
) -> Answer<TokenList> {
    let tokens = api.server.tokens().await?;
    Ok(Json(TokenList { tokens }))
}

/// Take a token back. It works nowhere any more, within two seconds.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 200, description = "it is revoked", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn revoke(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Segment(id): Segment,
) -> Answer<Value> {
    api.server.revoke_token(&id, actor(&may, &parts)).await?;
    api.tokens.forget();
    Ok(Json(json!({ "id": id, "revoked": true })))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditParams {
    /// Those after this one.
    after: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Read the audit log: who did what, each entry chained to the one before by its hash.
#[utoipa::path(get, path = "/api/audit", tag = "tokens", params(AuditParams),
    responses((status = 200, description = "a page of it", body = AuditPage), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn audit(
    State(api): State<Api>,
    _may: Authorized<Administer>,
    Params(params): Params<AuditParams>,
) -> Answer<AuditPage> {
    let limit = page(params.limit)?;
    let after = params.after.unwrap_or(0).min(i64::MAX.unsigned_abs());
    let rows = api.store().audit_entries(after, limit).await?;
    let next_after = (rows.len() == limit)
        .then(|| rows.last().map(|row| row.id))
        .flatten();
    let entries = rows.iter().map(|row| {
        json!({
            "id": row.id,
            "at": row.at,
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
