//! Tokens: made, listed and taken back; and the record of what was done with them.

use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{AccessId, AuditEntry, AuditOutcome, TokenRow};
use utoipa::IntoParams;
use wire::api::{AuditPage, Role, TokenCreated, TokenEntry, TokenList, TokenRequest};

use crate::api::access::{Administer, Authorized, fresh, source};
use crate::api::error::{ApiError, Failures};
use crate::api::executions::page;
use crate::api::extract::{Body, Params, Segment};
use crate::api::state::Api;
use crate::api::{Answer, Json};

/// The longest name.
const NAME_MAX: usize = 200;
/// The longest life of a token that ends: a hundred years.
const EXPIRES_MAX_S: u64 = 100 * 366 * 24 * 3_600;

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
    if request.name.is_empty() || request.name.len() > NAME_MAX {
        let detail = format!("`name` is not a text of 1 to {NAME_MAX} bytes");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    if request
        .expires_in_s
        .is_some_and(|s| !(1..=EXPIRES_MAX_S).contains(&s))
    {
        let detail = format!("`expires_in_s` is not a number from 1 to {EXPIRES_MAX_S}");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let expires_in = request.expires_in_s.map(Duration::from_secs);
    let token = fresh(&request.name, request.role, api.store().now(), expires_in);
    let (id, expires_at) = (token.row.id.to_string(), token.row.expires_at);
    api.store().put_token(token.row).await?;
    note(&api, &may, &parts, ("token.create", &id)).await?;
    Ok(Json(TokenCreated {
        id,
        token: token.text,
        role: request.role,
        expires_at,
    }))
}

/// List tokens; what they are is never shown again.
#[utoipa::path(get, path = "/api/tokens", tag = "tokens",
    responses((status = 200, description = "the tokens", body = TokenList), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    _may: Authorized<Administer>,
) -> Answer<TokenList> {
    let rows = api.store().tokens().await?;
    let tokens = rows.into_iter().filter_map(shown).collect();
    Ok(Json(TokenList { tokens }))
}

fn shown(row: TokenRow) -> Option<TokenEntry> {
    let role: Role = row.role.as_str().parse().ok()?;
    Some(TokenEntry {
        id: row.id.to_string(),
        name: row.name,
        role,
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: row.last_used_at,
        revoked_at: row.revoked_at,
    })
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
    let known = api.store().tokens().await?;
    let token = id.parse().map(AccessId).ok();
    let token = token.filter(|token| known.iter().any(|row| row.id == *token));
    let Some(token) = token else {
        let detail = format!("there is no token `{id}`");
        return Err(ApiError::not_found("TOKEN_NOT_FOUND", detail));
    };
    api.store().revoke_token(token).await?;
    api.tokens.forget();
    note(&api, &may, &parts, ("token.revoke", &id)).await?;
    Ok(Json(json!({ "id": id, "revoked": true })))
}

async fn note(
    api: &Api,
    may: &Authorized<Administer>,
    parts: &Parts,
    (what, resource): (&str, &str),
) -> Result<(), ApiError> {
    let entry = AuditEntry {
        actor: may.principal.name(),
        action: what.into(),
        resource: resource.to_owned(),
        outcome: AuditOutcome::Done,
        source: source(parts),
        detail: None,
    };
    Ok(api.store().audit(entry).await?)
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
