//! Tokens: made, listed and taken back, over HTTP by an admin or on the store itself by whoever owns it.

use std::time::Duration;

use store::{AccessId, AuditEntry, AuditOutcome, TokenRow};
use wire::api::{Role, TokenCreated, TokenEntry, TokenRequest};

use crate::Server;
use crate::api::access::fresh;

/// The longest name.
const NAME_MAX: usize = 200;
/// The longest life of a token that ends: a hundred years.
const EXPIRES_MAX_S: u64 = 100 * 366 * 24 * 3_600;

/// Who asks, for the audit log.
#[derive(Debug, Clone)]
pub struct Actor {
    /// What they are called.
    pub name: String,
    /// The address they ask from.
    pub source: Option<String>,
}

/// Why nothing was done to tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No token can have such a name.
    #[error("`name` is not a text of 1 to {NAME_MAX} bytes")]
    Name,
    /// No token can live so long.
    #[error("`expires_in_s` is not a number from 1 to {EXPIRES_MAX_S}")]
    Expires,
    /// There is no such token.
    #[error("there is no token `{0}`")]
    Unknown(String),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Server {
    /// Makes a token, which nobody can show again.
    pub async fn create_token(
        &self,
        request: &TokenRequest,
        actor: Actor,
    ) -> Result<TokenCreated, TokenError> {
        if request.name.is_empty() || request.name.len() > NAME_MAX {
            return Err(TokenError::Name);
        }
        let is_possible = |s: u64| (1..=EXPIRES_MAX_S).contains(&s);
        if !request.expires_in_s.is_none_or(is_possible) {
            return Err(TokenError::Expires);
        }
        let store = &self.shared.store;
        let expires_in = request.expires_in_s.map(Duration::from_secs);
        let token = fresh(&request.name, request.role, store.now(), expires_in);
        let (id, expires_at) = (token.row.id.to_string(), token.row.expires_at);
        store.put_token(token.row).await?;
        store.audit(entry(actor, "token.create", &id)).await?;
        Ok(TokenCreated {
            id,
            token: token.text,
            role: request.role,
            expires_at,
        })
    }

    /// Every token, oldest first; what they are is never shown again.
    pub async fn tokens(&self) -> Result<Vec<TokenEntry>, TokenError> {
        let rows = self.shared.store.tokens().await?;
        Ok(rows.into_iter().filter_map(shown).collect())
    }

    /// Takes a token back. Other servers on the same store learn of it within two seconds.
    pub async fn revoke_token(&self, id: &str, actor: Actor) -> Result<(), TokenError> {
        let store = &self.shared.store;
        let known = store.tokens().await?;
        let token = id.parse().map(AccessId).ok();
        let token = token.filter(|token| known.iter().any(|row| row.id == *token));
        let token = token.ok_or_else(|| TokenError::Unknown(id.to_owned()))?;
        store.revoke_token(token).await?;
        Ok(store.audit(entry(actor, "token.revoke", id)).await?)
    }
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

fn entry(actor: Actor, action: &str, resource: &str) -> AuditEntry {
    AuditEntry {
        actor: actor.name,
        action: action.into(),
        resource: resource.to_owned(),
        outcome: AuditOutcome::Done,
        source: actor.source,
        detail: None,
    }
}
