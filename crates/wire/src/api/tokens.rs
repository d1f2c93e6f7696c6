//! Access tokens, roles and the audit log.

use model::id::Name;
use model::raw::RawJson;
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of an access token. Each role from `viewer` to `admin` includes the ones before it; `worker` is separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Claim commands and report on them; nothing else.
    Worker,
    /// Read runs, results and logs.
    Viewer,
    /// Start and control runs.
    Operator,
    /// Register playbooks, which workers run as code.
    Author,
    /// Manage access tokens and credentials.
    Admin,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Author => "author",
            Self::Admin => "admin",
        })
    }
}

impl std::str::FromStr for Role {
    type Err = ParseRoleError;
    fn from_str(text: &str) -> Result<Self, ParseRoleError> {
        match text {
            "worker" => Ok(Self::Worker),
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "author" => Ok(Self::Author),
            "admin" => Ok(Self::Admin),
            _ => Err(ParseRoleError(text.to_owned())),
        }
    }
}

/// A text is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid role `{0}`: expected worker, viewer, operator, author or admin")]
pub struct ParseRoleError(pub String);

/// An access token to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAccessTokenRequest {
    /// Name of the token.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Lifetime in seconds. Default: does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expires_in_s: Option<u64>,
}

/// A created access token.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateAccessTokenResponse {
    /// ID of the token.
    pub id: String,
    /// The token itself; it cannot be shown again.
    pub token: String,
    /// Role of the token.
    pub role: Role,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
}

/// An access token in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessTokenEntry {
    /// ID of the token.
    pub id: String,
    /// Name of the token.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Whether it can be used now.
    pub state: AccessTokenState,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Time>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Time>,
}

/// Whether an access token can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessTokenState {
    /// It can be used.
    Active,
    /// Its lifetime has ended.
    Expired,
    /// An admin revoked it.
    Revoked,
}

/// All access tokens.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AccessTokenList {
    /// Tokens, oldest first.
    pub tokens: Vec<AccessTokenEntry>,
}

/// A page of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// Entries; oldest first, or newest first with `order=newest`.
    pub entries: Vec<AuditLogEntry>,
    /// Value for `after` to get the next page; absent on the last page, and with `order=newest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
    /// Value for `before` to get the next page with `order=newest`; absent on the last page. A page may have fewer entries
    /// than requested: at most 5,000 are compared with the filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditLogEntry {
    /// Its position, from 1.
    pub id: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    /// Who sent the request.
    pub actor: String,
    /// What the request was for, such as `credential.set`.
    #[schema(value_type = String)]
    pub action: Name,
    /// What it applied to.
    pub resource: String,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// Network address of the sender.
    pub source: Option<String>,
    /// Further details.
    #[schema(value_type = Option<Object>)]
    pub detail: Option<RawJson>,
    /// Hash of the previous entry's hash and this entry.
    pub hash: String,
}

/// How an audited request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// The request succeeded.
    Done,
    /// The request was not permitted.
    Denied,
    /// The request was permitted and failed.
    Failed,
}
