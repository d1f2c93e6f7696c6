//! Credentials: admins set, list and remove them, over HTTP or directly on the store. Their values cannot be read
//! back.

use language::playbook::credentials::{NAME_BYTES_MAX, is_credential_name};
use serde_json::{Map, Value, json};
use store::{AuditEntry, AuditOutcome, CredentialRow, SealedLocation};
use wire::api::{CredentialEntry, SetCredentialRequest};

use crate::Server;
use crate::access_tokens::Actor;
use crate::keychain::error::Error;
use crate::keychain::shared::Keychain;

/// Maximum size of a value as JSON.
const DATA_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of attempts if the same credential is set concurrently.
const TRIES_MAX: usize = 16;

impl Server {
    /// Stores a credential; if the name exists, as its next version.
    pub async fn set_credential(&self, request: &SetCredentialRequest, actor: Actor) -> Result<CredentialEntry, Error> {
        let keychain = &self.shared.keychain;
        let result = keychain.set_credential(request).await;
        let detail = result.as_ref().map(|row| json!({"version": row.version}));
        let record = AuditRecord {
            action: "credential.set",
            resource: &request.name,
            outcome: audit_outcome(&result),
            detail: detail.ok(),
        };
        keychain.audit(actor, record).await?;
        Ok(to_entry(result?))
    }

    /// Lists all credentials by name, without their values.
    pub async fn credentials(&self) -> Result<Vec<CredentialEntry>, Error> {
        let rows = self.shared.store.sealed_store().credentials().await?;
        Ok(rows.into_iter().map(to_entry).collect())
    }

    /// Returns one credential, without its value.
    pub async fn credential(&self, name: &str) -> Result<CredentialEntry, Error> {
        let row = self.shared.store.sealed_store().credential(name).await?;
        row.map(to_entry).ok_or_else(|| Error::NotFound(name.to_owned()))
    }

    /// Removes a credential. Workers that cached it drop it within a minute.
    pub async fn remove_credential(&self, name: &str, actor: Actor) -> Result<(), Error> {
        let keychain = &self.shared.keychain;
        if !self.shared.store.sealed_store().remove_credential(name).await? {
            return Err(Error::NotFound(name.to_owned()));
        }
        let record = AuditRecord {
            action: "credential.remove",
            resource: name,
            outcome: AuditOutcome::Done,
            detail: None,
        };
        keychain.audit(actor, record).await
    }
}

/// An operation of the keychain, for the audit log.
pub(super) struct AuditRecord<'a> {
    pub(super) action: &'static str,
    pub(super) resource: &'a str,
    pub(super) outcome: AuditOutcome,
    pub(super) detail: Option<Value>,
}

fn audit_outcome<T>(result: &Result<T, Error>) -> AuditOutcome {
    match result {
        Ok(_) => AuditOutcome::Done,
        Err(_) => AuditOutcome::Failed,
    }
}

impl Keychain {
    async fn set_credential(&self, request: &SetCredentialRequest) -> Result<CredentialRow, Error> {
        check_name("name", &request.name)?;
        check_name("type", &request.kind)?;
        let data = check_data(&request.data)?;
        let store = self.store.sealed_store();
        for _ in 0..TRIES_MAX {
            let before = store.credential(&request.name).await?;
            let version = before.as_ref().map_or(1, |row| row.version + 1);
            let location = SealedLocation::Credential {
                name: request.name.clone(),
                version,
            };
            let now = self.store.now();
            let row = CredentialRow {
                name: request.name.clone(),
                kind: request.kind.clone(),
                version,
                sealed: self.seal_value(&location, data)?,
                created_at: before.map_or(now, |row| row.created_at),
                updated_at: now,
                last_used_at: None,
            };
            // If the value can no longer be decrypted, it is encrypted again as the next version.
            let is_stored = store.put_credential(row.clone()).await?;
            if is_stored && self.rewrap_if_rotated(&location, &row.sealed).await? {
                return Ok(row);
            }
        }
        Err(Error::Conflict(format!("credential `{}`", request.name)))
    }

    /// Returns the value of a credential with its type.
    pub(super) async fn credential(&self, name: &str) -> Result<Value, Error> {
        let row = self.store.sealed_store().credential(name).await?;
        let row = row.ok_or_else(|| Error::NotFound(name.to_owned()))?;
        let location = SealedLocation::Credential {
            name: row.name,
            version: row.version,
        };
        let mut data = match self.open_value(&location, &row.sealed)? {
            Value::Object(data) => data,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        data.entry("type").or_insert_with(|| row.kind.into());
        Ok(Value::Object(data))
    }

    pub(super) async fn audit(&self, actor: Actor, done: AuditRecord<'_>) -> Result<(), Error> {
        let entry = AuditEntry {
            actor: actor.name,
            action: done.action.into(),
            resource: done.resource.to_owned(),
            outcome: done.outcome,
            source: actor.source,
            detail: done
                .detail
                .map(|detail| model::raw::RawJson::from_serializable(&detail)),
        };
        Ok(self.store.add_audit_entry(entry).await?)
    }
}

/// Checks a name; credentials, entries and types have names of the same form.
pub(super) fn check_name(subject: &str, name: &str) -> Result<(), Error> {
    if !is_credential_name(name) {
        return Err(Error::Invalid(format!(
            "invalid `{subject}`: expected 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-`, `.`, `:` or `@`"
        )));
    }
    Ok(())
}

/// Checks that a value is a non-empty map within the size limit.
pub(super) fn check_data(data: &Value) -> Result<&Value, Error> {
    let is_map = data.as_object().is_some_and(|map| !map.is_empty());
    if !is_map {
        let message = "invalid `data`: expected a map with at least one key";
        return Err(Error::Invalid(message.to_owned()));
    }
    if data.to_string().len() > DATA_BYTES_MAX {
        let message = format!("`data` exceeds {DATA_BYTES_MAX} bytes");
        return Err(Error::Invalid(message));
    }
    Ok(data)
}

fn to_entry(row: CredentialRow) -> CredentialEntry {
    CredentialEntry {
        name: row.name,
        kind: row.kind,
        version: row.version,
        created_at: row.created_at,
        updated_at: row.updated_at,
        last_used_at: row.last_used_at,
    }
}
