//! Credentials: requests that set them, lists without secret fields, and values for workers.

use std::fmt;
use std::time::Duration;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::secret::{ResolvedSecret, SecretValue};

/// A credential to create or update.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SetCredentialRequest {
    /// Name by which playbooks refer to it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// Credential type: `postgres`, `bearer`, `basic`, `api_key` …
    #[serde(rename = "type", alias = "kind")]
    #[schema(min_length = 1, max_length = 200)]
    pub kind: String,
    /// Secret fields. They are never returned.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl fmt::Debug for SetCredentialRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetCredentialRequest")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A credential in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialEntry {
    /// Name by which playbooks refer to it.
    pub name: String,
    /// Credential type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version, from 1; each update increments it.
    pub version: u32,
    /// When the name was first set.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When this version was set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// When a worker last received it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Time>,
}

/// All credentials.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CredentialList {
    /// Credentials, sorted by name.
    pub credentials: Vec<ListedCredential>,
    /// Whether `used_by` of every credential includes all playbooks. A request examines at most 10,000 playbooks and
    /// parses at most 200 that this server has not parsed before; the next requests examine the others.
    #[serde(default)]
    pub is_used_by_complete: bool,
}

/// A credential with the playbooks that use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedCredential {
    /// The credential.
    #[serde(flatten)]
    pub entry: CredentialEntry,
    /// Playbooks whose latest version names the credential, by path. Names that a template computes are not found.
    #[serde(default)]
    pub used_by: Vec<CredentialUse>,
}

/// A playbook that names a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialUse {
    /// Path in the catalog.
    pub path: String,
    /// Its latest version.
    pub version: u32,
}

/// The credential types that tasks know.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CredentialTypeList {
    /// Types, the most common first. A credential may have any other type, with any fields.
    pub types: Vec<CredentialType>,
}

/// A credential type with its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialType {
    /// Name of the type.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its usual fields.
    pub fields: Vec<CredentialField>,
}

/// A field of a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialField {
    /// Key in `data`.
    pub name: String,
    /// What it contains.
    pub description: String,
    /// Whether its value is masked in the output of tasks. No value is ever returned, secret or not.
    pub is_secret: bool,
    /// Whether tasks need it.
    pub is_required: bool,
    /// Whether its value usually has several lines.
    pub is_multiline: bool,
}

/// Result of a master key rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotateKeyResponse {
    /// ID of the current master key.
    pub key_id: String,
    /// Number of values that were re-encrypted.
    pub rewrapped: u64,
    /// Number of values that still need the old key.
    pub remaining: u64,
}

/// A keychain entry to set for every run of a playbook.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetKeychainEntryRequest {
    /// Value of the entry. It is never returned.
    #[schema(value_type = Object)]
    pub data: Value,
    /// Lifetime in seconds. Default: until the entry is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expires_in_s: Option<u64>,
}

impl fmt::Debug for SetKeychainEntryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetKeychainEntryRequest").finish_non_exhaustive()
    }
}

/// Status of a keychain entry that all runs of a playbook share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeychainEntryStatus {
    /// Name of the entry.
    pub name: String,
    /// Whether there is a value that has not expired.
    pub resolved: bool,
    /// When the value was resolved or set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Time>,
    /// When the value expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
}

/// Request of a worker for the credentials of its command's step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretsRequest {
    /// Worker session.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    pub worker: WorkerId,
    /// Command that the worker holds.
    #[schema(value_type = String)]
    pub command: CommandId,
    /// Lease epoch of the worker's lease.
    #[schema(value_type = u64)]
    pub lease_epoch: LeaseEpoch,
    /// Names of credentials or keychain entries.
    #[schema(max_items = 64)]
    pub names: Vec<String>,
}

/// Resolved secrets for the requesting worker.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretsResponse {
    /// Secrets, in the order of the requested names.
    pub secrets: Vec<SecretEntry>,
}

/// A resolved secret.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretEntry {
    name: String,
    #[schema(value_type = Object)]
    data: Value,
    valid_for_ms: u64,
}

impl SecretsResponse {
    /// Converts secrets for sending.
    pub fn from_secrets(secrets: &[ResolvedSecret]) -> Self {
        let entry = |secret: &ResolvedSecret| SecretEntry {
            name: secret.name.clone(),
            data: secret.value.reveal().clone(),
            valid_for_ms: u64::try_from(secret.valid_for.as_millis()).unwrap_or(u64::MAX),
        };
        Self {
            secrets: secrets.iter().map(entry).collect(),
        }
    }

    /// Converts received secrets.
    pub fn into_secrets(self) -> Vec<ResolvedSecret> {
        let secret = |entry: SecretEntry| ResolvedSecret {
            name: entry.name,
            value: SecretValue::new(entry.data),
            valid_for: Duration::from_millis(entry.valid_for_ms),
        };
        self.secrets.into_iter().map(secret).collect()
    }
}
