//! State that all parts of the keychain share, and encryption of values with the configured keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use model::cache::BoundedCache;
use model::id::PlaybookHash;
use serde_json::Value;
use store::{SealedLocation, SealedValue, Store};

use crate::keychain::config::KeychainConfig;
use crate::keychain::declared::DeclaredSecrets;
use crate::keychain::error::Error;
use crate::keychain::seal;
use crate::keychain::uses::CredentialUseIndex;

/// Number of playbooks whose declared secrets are cached.
const DECLARED_MAX: u64 = 1_024;

/// Key of a network request for a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct FetchKey {
    pub(super) scope: String,
    pub(super) name: String,
    /// Digest of the request.
    pub(super) request_digest: String,
}

/// The keychain of a server.
pub(crate) struct Keychain {
    pub(super) config: KeychainConfig,
    pub(super) store: Arc<dyn Store>,
    /// Locks of the network requests in progress.
    fetch_locks: Mutex<HashMap<FetchKey, Weak<tokio::sync::Mutex<()>>>>,
    /// Held during a rotation of the master key.
    pub(super) rotation_lock: tokio::sync::Mutex<()>,
    declared_secrets: Mutex<BoundedCache<PlaybookHash, Arc<DeclaredSecrets>>>,
    pub(super) uses: CredentialUseIndex,
}

impl Keychain {
    pub(crate) fn new(config: KeychainConfig, store: Arc<dyn Store>) -> Self {
        Self {
            config,
            store,
            fetch_locks: Mutex::default(),
            rotation_lock: tokio::sync::Mutex::default(),
            declared_secrets: Mutex::new(BoundedCache::new(DECLARED_MAX)),
            uses: CredentialUseIndex::default(),
        }
    }

    /// Encrypts a value for a location.
    pub(super) fn seal_value(&self, location: &SealedLocation, value: &Value) -> Result<SealedValue, Error> {
        let key = self.config.keys.current()?;
        let text = zeroize::Zeroizing::new(value.to_string());
        Ok(seal::seal(&key, location, text.as_bytes()))
    }

    /// Decrypts a value that was encrypted for a location.
    pub(super) fn open_value(&self, location: &SealedLocation, sealed: &SealedValue) -> Result<Value, Error> {
        let key = self.config.keys.find(&sealed.key_id)?;
        let key = key.ok_or_else(|| Error::MasterKeyWrong {
            subject: seal::describe_location(location),
            key_id: sealed.key_id.clone(),
        })?;
        let text = seal::open(&key, location, sealed)?;
        serde_json::from_slice(&text).map_err(|_| Error::Tampered(seal::describe_location(location)))
    }

    /// Lock for a network request, so that the same request is sent only once at a time; other requests do not wait
    /// for it.
    pub(super) fn fetch_lock(&self, fetch_key: &FetchKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.fetch_locks.lock().expect("no holder of the lock panics");
        all.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = all.get(fetch_key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        all.insert(fetch_key.clone(), Arc::downgrade(&lock));
        lock
    }

    /// The secrets that a playbook uses, cached.
    pub(super) fn declared_secrets(&self, playbook: &language::playbook::Playbook) -> Arc<DeclaredSecrets> {
        let mut secrets_by_step = self.declared_secrets.lock().expect("no holder of the lock panics");
        if let Some(declared) = secrets_by_step.get(&playbook.hash) {
            return declared;
        }
        let declared = Arc::new(DeclaredSecrets::from_playbook(playbook));
        secrets_by_step.insert(playbook.hash.clone(), declared.clone(), 1);
        declared
    }
}
