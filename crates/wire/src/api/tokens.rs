//! Who may do what: tokens, roles, and the record of what they did.

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a token allows; each person's role includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Claim commands and report on them; nothing else.
    Worker,
    /// Look.
    Viewer,
    /// Start and stop runs.
    Operator,
    /// Register playbooks: code that workers run.
    Author,
    /// Tokens and credentials.
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
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        match text {
            "worker" => Ok(Self::Worker),
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "author" => Ok(Self::Author),
            "admin" => Ok(Self::Admin),
            _ => Err(UnknownRole(text.to_owned())),
        }
    }
}

/// A word that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role: worker, viewer, operator, author or admin")]
pub struct UnknownRole(pub String);

/// A token to make.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// How long it lives; for ever if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expires_in_s: Option<u64>,
}

/// A token as it is shown once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// What it is known by.
    pub id: String,
    /// The token itself, which nobody can show again.
    pub token: String,
    /// What it allows.
    pub role: Role,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
}

/// A token as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenEntry {
    /// What it is known by.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Time>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Time>,
}

/// Every token.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, oldest first.
    pub tokens: Vec<TokenEntry>,
}

/// A page of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub entries: Vec<serde_json::Value>,
    /// What `after` of the next page is; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
}
