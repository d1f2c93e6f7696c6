//! Encrypted credentials and resolved keychain entries. A store only receives ciphertext.

use async_trait::async_trait;
use model::time::Time;

use crate::error::Error;

/// A value that is encrypted with envelope encryption: a master key encrypts its data key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// The ID of the master key that encrypts the data key.
    pub key_id: String,
    /// The encrypted data key.
    pub data_key: Vec<u8>,
    /// The value, encrypted with the data key.
    pub data: Vec<u8>,
}

/// A credential as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    /// The name that playbooks refer to.
    pub name: String,
    /// The credential type: `postgres`, `bearer` …
    pub kind: String,
    /// Increases with each new value.
    pub version: u32,
    /// The value.
    pub sealed: SealedValue,
    /// When the credential was created.
    pub created_at: Time,
    /// When this version was set.
    pub updated_at: Time,
    /// When it was last sent to a worker.
    pub last_used_at: Option<Time>,
}

/// A resolved keychain entry, stored until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeychainRow {
    /// The scope that shares it: an execution, a tree of executions, or a playbook.
    pub scope: String,
    /// The entry's name.
    pub name: String,
    /// The resolved value.
    pub sealed: SealedValue,
    /// When it was resolved.
    pub resolved_at: Time,
    /// When it must be resolved again.
    pub expires_at: Option<Time>,
}

/// The location of an encrypted value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedLocation {
    /// A version of a credential.
    Credential {
        /// Its name.
        name: String,
        /// Its version.
        version: u32,
    },
    /// A resolved keychain entry.
    Keychain {
        /// The scope that shares it.
        scope: String,
        /// The entry's name.
        name: String,
    },
}

/// A store for encrypted values.
#[async_trait]
pub trait SealedStore: Send + Sync {
    /// Stores the next version of a credential, or version 1 of a new one. Returns false if another version was stored
    /// first.
    async fn put_credential(&self, row: CredentialRow) -> Result<bool, Error>;

    /// A credential.
    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error>;

    /// Every credential, by name.
    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error>;

    /// Removes a credential. Returns whether it existed.
    async fn remove_credential(&self, name: &str) -> Result<bool, Error>;

    /// Records that a credential is used now.
    async fn touch_credential(&self, name: &str) -> Result<(), Error>;

    /// Stores or replaces a resolved entry, and removes expired entries.
    async fn put_keychain(&self, row: KeychainRow) -> Result<(), Error>;

    /// A resolved entry, even if it has expired.
    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error>;

    /// Removes a resolved entry. Returns whether it existed.
    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error>;

    /// All values whose data key is encrypted with another master key.
    async fn sealed_with_other_keys(&self, key_id: &str) -> Result<Vec<(SealedLocation, SealedValue)>, Error>;

    /// Replaces an encrypted data key, unless the value has changed since it was read. Returns whether it was
    /// replaced.
    async fn rewrap(&self, location: &SealedLocation, from: &SealedValue, to: &SealedValue) -> Result<bool, Error>;
}
