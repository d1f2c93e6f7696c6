//! The safe: credentials and resolved keychain entries, sealed. Only ciphertext ever reaches a store.

use async_trait::async_trait;
use model::time::Time;

use crate::error::Error;

/// A value that only the holder of a master key can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which master key wraps the data key.
    pub key_id: String,
    /// The data key, wrapped.
    pub data_key: Vec<u8>,
    /// The value, encrypted under the data key.
    pub data: Vec<u8>,
}

/// A credential as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    /// What playbooks call it.
    pub name: String,
    /// What it opens: `postgres`, `bearer` …
    pub kind: String,
    /// Counts up with each new value.
    pub version: u32,
    /// The value.
    pub sealed: Sealed,
    /// When the name was first set.
    pub created_at: Time,
    /// When this version was set.
    pub updated_at: Time,
    /// When it was last handed to a worker.
    pub last_used_at: Option<Time>,
}

/// A keychain entry that was resolved, kept until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeychainRow {
    /// Who shares it: an execution, a tree of executions, or a playbook.
    pub scope: String,
    /// The entry.
    pub name: String,
    /// What it came to.
    pub sealed: Sealed,
    /// When it was resolved.
    pub resolved_at: Time,
    /// From when on it must be resolved again.
    pub expires_at: Option<Time>,
}

/// Where a sealed value is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedPlace {
    /// A version of a credential.
    Credential {
        /// Its name.
        name: String,
        /// Its version.
        version: u32,
    },
    /// A resolved keychain entry.
    Keychain {
        /// Who shares it.
        scope: String,
        /// The entry.
        name: String,
    },
}

/// What keeps sealed values.
#[async_trait]
pub trait Safe: Send + Sync {
    /// Keeps the next version of a credential; version 1 where there is none. False if another version came first.
    async fn put_credential(&self, row: CredentialRow) -> Result<bool, Error>;

    /// A credential.
    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error>;

    /// Every credential, by name.
    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error>;

    /// Removes a credential; whether there was one.
    async fn remove_credential(&self, name: &str) -> Result<bool, Error>;

    /// Remembers that a credential is used now.
    async fn touch_credential(&self, name: &str) -> Result<(), Error>;

    /// Keeps a resolved entry in place of the one before, and forgets those that have expired.
    async fn put_keychain(&self, row: KeychainRow) -> Result<(), Error>;

    /// A resolved entry, expired ones too.
    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error>;

    /// Forgets a resolved entry; whether there was one.
    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error>;

    /// Everything that another master key than this one wraps.
    async fn sealed_otherwise(&self, key_id: &str) -> Result<Vec<(SealedPlace, Sealed)>, Error>;

    /// Wraps a data key anew, unless the value was replaced meanwhile; whether it was there.
    async fn rewrap(&self, place: &SealedPlace, from: &Sealed, to: &Sealed) -> Result<bool, Error>;
}
