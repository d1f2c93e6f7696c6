//! Credentials on their way in, lists without what they open, and values on their way to a worker.

use std::fmt;
use std::time::Duration;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::secret::{Secret, SecretValue};

/// A credential to keep.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CredentialRequest {
    /// What playbooks call it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// What it opens: `postgres`, `bearer`, `basic`, `api_key` …
    #[serde(rename = "type", alias = "kind")]
    #[schema(min_length = 1, max_length = 200)]
    pub kind: String,
    /// What it opens with. It never comes back.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl fmt::Debug for CredentialRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialRequest")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A credential as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialEntry {
    /// What playbooks call it.
    pub name: String,
    /// What it opens.
    #[serde(rename = "type")]
    pub kind: String,
    /// Counts its values from 1.
    pub version: u32,
    /// When the name was first set.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When this version was set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// When it was last handed to a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Time>,
}

/// Every credential.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CredentialList {
    /// The credentials, by name.
    pub credentials: Vec<CredentialEntry>,
}

/// What a change of the master key did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct KeyRotated {
    /// What seals now.
    pub key_id: String,
    /// How many values were wrapped anew.
    pub rewrapped: u64,
    /// How many still need the old key.
    pub remaining: u64,
}

/// A keychain entry to set for every run of a playbook.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeychainRequest {
    /// What it comes to. It never comes back.
    #[schema(value_type = Object)]
    pub data: Value,
    /// How long it is good for; until it is removed if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expires_in_s: Option<u64>,
}

impl fmt::Debug for KeychainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeychainRequest").finish_non_exhaustive()
    }
}

/// How a keychain entry stands that every run of a playbook shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeychainState {
    /// The entry.
    pub name: String,
    /// Whether a value is kept that has not expired.
    pub resolved: bool,
    /// When it was resolved or set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Time>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
}

/// A worker asks for what its command's step names.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretsRequest {
    /// Who asks.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// The command it holds.
    #[schema(value_type = String)]
    pub command: CommandId,
    /// Under which claim.
    #[schema(value_type = u64)]
    pub lease_epoch: LeaseEpoch,
    /// The names.
    #[schema(max_items = 64)]
    pub names: Vec<String>,
}

/// What the names came to, for the worker alone.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretsAnswer {
    /// In the order of the names.
    pub secrets: Vec<SecretEntry>,
}

/// One name and what it came to.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretEntry {
    name: String,
    #[schema(value_type = Object)]
    data: Value,
    valid_for_ms: u64,
}

impl SecretsAnswer {
    /// Values as they are sent.
    pub fn of(secrets: &[Secret]) -> Self {
        let entry = |secret: &Secret| SecretEntry {
            name: secret.name.clone(),
            data: secret.value.reveal().clone(),
            valid_for_ms: u64::try_from(secret.valid_for.as_millis()).unwrap_or(u64::MAX),
        };
        Self {
            secrets: secrets.iter().map(entry).collect(),
        }
    }

    /// Values as they are held.
    pub fn into_secrets(self) -> Vec<Secret> {
        let secret = |entry: SecretEntry| Secret {
            name: entry.name,
            value: SecretValue::new(entry.data),
            valid_for: Duration::from_millis(entry.valid_for_ms),
        };
        self.secrets.into_iter().map(secret).collect()
    }
}
