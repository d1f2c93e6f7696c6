//! Encrypted cache of resolved entries until they expire: per execution, per tree of executions, or per playbook.

use std::time::Duration;

use language::playbook::KeychainScope;
use model::id::ExecutionId;
use model::time::Time;
use serde_json::{Value, json};
use store::{AuditOutcome, KeychainRow, SealedLocation};
use wire::api::KeychainEntryStatus;

use crate::Server;
use crate::access_tokens::Actor;
use crate::keychain::credentials::{AuditRecord, check_data, check_name};
use crate::keychain::error::Error;
use crate::keychain::seal;
use crate::keychain::shared::Keychain;

/// Maximum depth of a tree of executions.
const DEPTH_MAX: usize = 64;
/// Maximum number of attempts to encrypt a value while the master key is rotated.
pub(super) const SEALS_MAX: usize = 4;

/// A value with its expiry.
pub(super) struct CachedValue {
    pub(super) value: Value,
    pub(super) expires_at: Option<Time>,
    /// Digest of the request that returned the value, `None` if an admin set it. The value is only used for the same
    /// request.
    pub(super) request_digest: Option<String>,
}

impl CachedValue {
    /// The form that is encrypted: a map for a value that was set, a pair of digest and value for one that was
    /// fetched.
    fn to_sealed(&self) -> Value {
        match &self.request_digest {
            Some(digest) => json!([digest, self.value]),
            None => self.value.clone(),
        }
    }

    fn from_opened(value: Value, expires_at: Option<Time>) -> Self {
        let (request_digest, value) = match value {
            Value::Array(mut pair) if pair.len() == 2 => {
                let value = pair.remove(1);
                (pair[0].as_str().map(ToOwned::to_owned), value)
            }
            value => (None, value),
        };
        Self {
            value,
            expires_at,
            request_digest,
        }
    }
}

/// The execution whose entries are resolved.
#[derive(Debug, Clone)]
pub(super) struct EntryOwner {
    pub(super) execution: ExecutionId,
    /// The parent execution.
    pub(super) parent: Option<ExecutionId>,
    /// Path of the playbook.
    pub(super) path: String,
}

/// An entry that all executions of a playbook share.
pub(crate) struct SharedEntry<'a> {
    /// Path of the playbook.
    pub(crate) path: &'a str,
    /// Name of the entry.
    pub(crate) name: &'a str,
}

fn playbook_scope(path: &str) -> String {
    format!("playbook:{path}")
}

impl Keychain {
    /// Cache scope of an entry.
    pub(super) async fn find_scope_key(&self, owner: &EntryOwner, scope: KeychainScope) -> Result<String, Error> {
        Ok(match scope {
            KeychainScope::Local => format!("run:{}", owner.execution),
            KeychainScope::Global => playbook_scope(&owner.path),
            KeychainScope::Shared => format!("tree:{}", self.find_root_execution(owner).await?),
        })
    }

    /// Finds the root of the tree of executions.
    async fn find_root_execution(&self, owner: &EntryOwner) -> Result<ExecutionId, Error> {
        let mut top = owner.execution;
        let mut above = owner.parent;
        for _ in 0..DEPTH_MAX {
            let Some(parent) = above else { break };
            top = parent;
            let row = self.store.execution(parent).await?;
            above = row.and_then(|row| row.parent);
        }
        Ok(top)
    }

    /// Returns a cached value unless it has expired.
    pub(super) async fn cached_value(&self, scope: &str, name: &str) -> Result<Option<CachedValue>, Error> {
        let Some(row) = self.store.sealed_store().keychain(scope, name).await? else {
            return Ok(None);
        };
        let now = self.store.now();
        if row.expires_at.is_some_and(|expires| expires <= now) {
            return Ok(None);
        }
        let value = self.open_value(&sealed_location(scope, name), &row.sealed)?;
        Ok(Some(CachedValue::from_opened(value, row.expires_at)))
    }

    /// Returns the value that all executions of a playbook share: set by an admin, or fetched by one of them.
    pub(super) async fn shared_value(&self, path: &str, name: &str) -> Result<Option<CachedValue>, Error> {
        self.cached_value(&playbook_scope(path), name).await
    }

    /// Caches the value of an entry.
    pub(super) async fn cache_value(&self, scope: &str, name: &str, cached: &CachedValue) -> Result<(), Error> {
        let location = sealed_location(scope, name);
        let value = cached.to_sealed();
        for _ in 0..SEALS_MAX {
            let row = KeychainRow {
                scope: scope.to_owned(),
                name: name.to_owned(),
                sealed: self.seal_value(&location, &value)?,
                resolved_at: self.store.now(),
                expires_at: cached.expires_at,
            };
            let sealed = row.sealed.clone();
            self.store.sealed_store().put_keychain(row).await?;
            if self.rewrap_if_rotated(&location, &sealed).await? {
                return Ok(());
            }
        }
        Err(Error::Conflict(seal::describe_location(&location)))
    }
}

fn sealed_location(scope: &str, name: &str) -> SealedLocation {
    SealedLocation::Keychain {
        scope: scope.to_owned(),
        name: name.to_owned(),
    }
}

impl Server {
    /// State of an entry that all executions of a playbook share, without its value.
    pub(crate) async fn keychain_entry_status(&self, entry: SharedEntry<'_>) -> Result<KeychainEntryStatus, Error> {
        let scope = playbook_scope(entry.path);
        let row = self.shared.store.sealed_store().keychain(&scope, entry.name).await?;
        let now = self.shared.store.now();
        let live = row.filter(|row| row.expires_at.is_none_or(|expires| expires > now));
        Ok(KeychainEntryStatus {
            name: entry.name.to_owned(),
            resolved: live.is_some(),
            resolved_at: live.as_ref().map(|row| row.resolved_at),
            expires_at: live.and_then(|row| row.expires_at),
        })
    }

    /// Sets an entry for all executions of a playbook.
    pub(crate) async fn set_keychain_entry(
        &self,
        entry: SharedEntry<'_>,
        data: &Value,
        ttl: Option<Duration>,
        actor: Actor,
    ) -> Result<KeychainEntryStatus, Error> {
        check_name("name", entry.name)?;
        let keychain = &self.shared.keychain;
        let cached = CachedValue {
            value: check_data(data)?.clone(),
            expires_at: ttl.map(|ttl| self.shared.store.now().after(ttl)),
            request_digest: None,
        };
        keychain
            .cache_value(&playbook_scope(entry.path), entry.name, &cached)
            .await?;
        keychain.audit(actor, audit_record("keychain.set", &entry)).await?;
        self.keychain_entry_status(entry).await
    }

    /// Removes an entry that all executions of a playbook share; it is resolved again on next use.
    pub(crate) async fn forget_keychain_entry(&self, entry: SharedEntry<'_>, actor: Actor) -> Result<bool, Error> {
        let scope = playbook_scope(entry.path);
        let store = self.shared.store.sealed_store();
        let was_removed = store.remove_keychain(&scope, entry.name).await?;
        let record = audit_record("keychain.remove", &entry);
        self.shared.keychain.audit(actor, record).await?;
        Ok(was_removed)
    }
}

fn audit_record<'a>(action: &'static str, entry: &SharedEntry<'a>) -> AuditRecord<'a> {
    AuditRecord {
        action,
        resource: entry.name,
        outcome: AuditOutcome::Done,
        detail: Some(json!({"path": entry.path})),
    }
}
