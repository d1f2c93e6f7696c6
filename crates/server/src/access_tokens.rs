//! Access tokens: created, listed and revoked over HTTP by an admin, or directly on the store by its owner.

use std::time::Duration;

use model::time::Time;
use store::{AccessTokenId, AccessTokenRow, AuditEntry, AuditOutcome};
use wire::api::{AccessTokenEntry, AccessTokenState, CreateAccessTokenRequest, CreateAccessTokenResponse, Role};

use crate::Server;
use crate::api::access::generate_access_token;

/// Maximum length of a name in bytes.
const NAME_MAX: usize = 200;
/// Longest lifetime of a token that expires: a hundred years.
const EXPIRES_MAX_S: u64 = 100 * 366 * 24 * 3_600;

/// The caller, for the audit log.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Name of the caller.
    pub name: String,
    /// Remote address of the caller.
    pub source: Option<String>,
}

/// Why a token operation failed.
#[derive(Debug, thiserror::Error)]
pub enum AccessTokenError {
    /// The name is invalid.
    #[error("invalid `name`: expected 1 to {NAME_MAX} bytes")]
    InvalidName,
    /// The lifetime is invalid.
    #[error("invalid `expires_in_s`: expected a number from 1 to {EXPIRES_MAX_S}")]
    InvalidExpiry,
    /// The token does not exist.
    #[error("token `{0}` not found")]
    NotFound(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Server {
    /// Creates a token. Its text is returned once and cannot be read again.
    pub async fn create_access_token(
        &self,
        request: &CreateAccessTokenRequest,
        actor: Actor,
    ) -> Result<CreateAccessTokenResponse, AccessTokenError> {
        if request.name.is_empty() || request.name.len() > NAME_MAX {
            return Err(AccessTokenError::InvalidName);
        }
        let is_possible = |s: u64| (1..=EXPIRES_MAX_S).contains(&s);
        if !request.expires_in_s.is_none_or(is_possible) {
            return Err(AccessTokenError::InvalidExpiry);
        }
        let store = &self.shared.store;
        let expires_in = request.expires_in_s.map(Duration::from_secs);
        let token = generate_access_token(&request.name, request.role, store.now(), expires_in);
        let (id, expires_at) = (token.row.id.to_string(), token.row.expires_at);
        store.put_token(token.row).await?;
        store.add_audit_entry(audit_entry(actor, "token.create", &id)).await?;
        Ok(CreateAccessTokenResponse {
            id,
            token: token.text,
            role: request.role,
            expires_at,
        })
    }

    /// Lists all tokens, oldest first, without their texts.
    pub async fn access_tokens(&self) -> Result<Vec<AccessTokenEntry>, AccessTokenError> {
        let rows = self.shared.store.tokens().await?;
        let now = self.shared.store.now();
        Ok(rows.into_iter().filter_map(|row| to_entry(row, now)).collect())
    }

    /// Revokes a token. Other servers on the same store apply it within two seconds.
    pub async fn revoke_access_token(&self, id: &str, actor: Actor) -> Result<(), AccessTokenError> {
        let store = &self.shared.store;
        let token_row = store.tokens().await?;
        let token = id.parse().map(AccessTokenId).ok();
        let token = token.filter(|token| token_row.iter().any(|row| row.id == *token));
        let token = token.ok_or_else(|| AccessTokenError::NotFound(id.to_owned()))?;
        store.revoke_token(token).await?;
        Ok(store.add_audit_entry(audit_entry(actor, "token.revoke", id)).await?)
    }
}

fn to_entry(row: AccessTokenRow, now: Time) -> Option<AccessTokenEntry> {
    let role: Role = row.role.as_str().parse().ok()?;
    Some(AccessTokenEntry {
        id: row.id.to_string(),
        role,
        state: token_state(&row, now),
        name: row.name,
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: row.last_used_at,
        revoked_at: row.revoked_at,
    })
}

fn token_state(row: &AccessTokenRow, now: Time) -> AccessTokenState {
    if row.revoked_at.is_some() {
        AccessTokenState::Revoked
    } else if row.expires_at.is_some_and(|expires_at| expires_at <= now) {
        AccessTokenState::Expired
    } else {
        AccessTokenState::Active
    }
}

fn audit_entry(actor: Actor, action: &str, resource: &str) -> AuditEntry {
    AuditEntry {
        actor: actor.name,
        action: action.into(),
        resource: resource.to_owned(),
        outcome: AuditOutcome::Done,
        source: actor.source,
        detail: None,
    }
}
