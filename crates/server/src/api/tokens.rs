//! Access tokens: create, list and revoke them; and the audit log.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{AuditEntry, AuditRow};
use utoipa::IntoParams;
use wire::api::{
    AccessTokenList, AuditLogEntry, AuditOutcome, AuditPage, CreateAccessTokenRequest, CreateAccessTokenResponse,
};

use crate::api::access::{Administer, AuditedAdmin, Authorized};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::page_limit;
use crate::api::extract::{JsonBody, PathParam, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Maximum number of entries that a request with filters examines.
const EXAMINED_MAX: usize = 5_000;
/// Number of entries read at a time.
const READ_MAX: usize = 500;

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
    /// Order of the entries. Default: `oldest`.
    #[serde(default)]
    #[param(inline)]
    order: AuditOrder,
    /// With `order=oldest`: only entries after this ID.
    after: Option<u64>,
    /// With `order=newest`: only entries before this ID.
    before: Option<u64>,
    /// With `order=newest`: only entries whose actor contains this text.
    actor: Option<String>,
    /// With `order=newest`: only entries whose action starts with this text, such as `credential.`.
    action: Option<String>,
    /// With `order=newest`: only entries with this resource.
    resource: Option<String>,
    /// With `order=newest`: only entries with this outcome.
    outcome: Option<AuditOutcome>,
    /// Maximum number of entries. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Order of audit entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditOrder {
    #[default]
    Oldest,
    Newest,
}

impl AuditParams {
    /// Checks that the parameters belong to the order.
    fn check(&self) -> Result<(), ApiError> {
        let has_filter =
            self.actor.is_some() || self.action.is_some() || self.resource.is_some() || self.outcome.is_some();
        let detail = match self.order {
            AuditOrder::Oldest if has_filter || self.before.is_some() => "`before` and filters need `order=newest`",
            AuditOrder::Newest if self.after.is_some() => "`after` needs `order=oldest`; use `before`",
            AuditOrder::Oldest | AuditOrder::Newest => return Ok(()),
        };
        Err(ApiError::invalid("PARAMETER_INVALID", detail))
    }

    /// Whether the filters select an entry.
    fn selects(&self, entry: &AuditEntry) -> bool {
        self.actor.as_ref().is_none_or(|actor| entry.actor.contains(actor))
            && self
                .action
                .as_ref()
                .is_none_or(|action| entry.action.as_str().starts_with(action))
            && self
                .resource
                .as_ref()
                .is_none_or(|resource| entry.resource == *resource)
            && self.outcome.is_none_or(|outcome| to_outcome(entry.outcome) == outcome)
    }
}

/// Read the audit log. Each entry is chained to the previous one by its hash.
///
/// With `order=newest`, the log is read from its end and can be filtered. A request examines at most 5,000 entries, so
/// a page may be short or empty although `next_before` is present.
#[utoipa::path(get, path = "/api/audit", tag = "tokens", params(AuditParams),
    responses((status = 200, description = "a page of the audit log", body = AuditPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn audit(
    State(api): State<ApiState>,
    _caller: Authorized<Administer>,
    QueryParams(params): QueryParams<AuditParams>,
) -> ApiResult<AuditPage> {
    let limit = page_limit(params.limit)?;
    params.check()?;
    let page = match params.order {
        AuditOrder::Newest => newest_entries(&api, &params, limit).await?,
        AuditOrder::Oldest => oldest_entries(&api, &params, limit).await?,
    };
    Ok(Json(page))
}

async fn oldest_entries(api: &ApiState, params: &AuditParams, limit: usize) -> Result<AuditPage, ApiError> {
    let after = params.after.unwrap_or(0).min(i64::MAX.unsigned_abs());
    let rows = api.store().audit_entries(after, limit).await?;
    let next_after = (rows.len() == limit).then(|| rows.last().map(|row| row.id)).flatten();
    Ok(AuditPage {
        entries: rows.into_iter().map(to_entry).collect(),
        next_after,
        next_before: None,
    })
}

/// Reads the log backwards until a page is full or the bound of examined entries is reached.
async fn newest_entries(api: &ApiState, params: &AuditParams, limit: usize) -> Result<AuditPage, ApiError> {
    let monitoring = api.store().monitoring_store();
    let mut before = params.before.unwrap_or(u64::MAX);
    let mut entries = Vec::new();
    let mut examined = 0;
    while entries.len() < limit && examined < EXAMINED_MAX {
        let rows = monitoring.audit_entries_before(before, READ_MAX).await?;
        let is_end = rows.len() < READ_MAX;
        for row in rows {
            if entries.len() == limit {
                break;
            }
            before = row.id;
            examined += 1;
            if params.selects(&row.entry) {
                entries.push(to_entry(row));
            }
        }
        if is_end && entries.len() < limit {
            before = 0;
            break;
        }
    }
    Ok(AuditPage {
        entries,
        next_after: None,
        next_before: (before > 1).then_some(before),
    })
}

fn to_entry(row: AuditRow) -> AuditLogEntry {
    AuditLogEntry {
        id: row.id,
        at: row.recorded_at,
        actor: row.entry.actor,
        action: row.entry.action,
        resource: row.entry.resource,
        outcome: to_outcome(row.entry.outcome),
        source: row.entry.source,
        detail: row.entry.detail,
        hash: hex::encode(row.hash),
    }
}

fn to_outcome(outcome: store::AuditOutcome) -> AuditOutcome {
    match outcome {
        store::AuditOutcome::Done => AuditOutcome::Done,
        store::AuditOutcome::Denied => AuditOutcome::Denied,
        store::AuditOutcome::Failed => AuditOutcome::Failed,
    }
}
