//! Encrypted values in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::Store as _;
use crate::error::Error;
use crate::memory::MemoryStore;
use crate::sealed::{CredentialRow, KeychainRow, SealedLocation, SealedStore, SealedValue};

#[derive(Default)]
pub(super) struct SealedTables {
    credentials: BTreeMap<String, CredentialRow>,
    keychain: BTreeMap<(String, String), KeychainRow>,
}

impl SealedTables {
    fn sealed_mut(&mut self, location: &SealedLocation) -> Option<&mut SealedValue> {
        match location {
            SealedLocation::Credential { name, version } => {
                let row = self.credentials.get_mut(name)?;
                (row.version == *version).then_some(&mut row.sealed)
            }
            SealedLocation::Keychain { scope, name } => {
                let row = self.keychain.get_mut(&(scope.clone(), name.clone()))?;
                Some(&mut row.sealed)
            }
        }
    }
}

#[async_trait]
impl SealedStore for MemoryStore {
    async fn put_credential(&self, row: CredentialRow) -> Result<bool, Error> {
        let mut state = self.state();
        let credentials = &mut state.sealed.credentials;
        let before = credentials.get(&row.name).map_or(0, |credential| credential.version);
        if row.version != before + 1 {
            return Ok(false);
        }
        credentials.insert(row.name.clone(), row);
        Ok(true)
    }

    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error> {
        Ok(self.state().sealed.credentials.get(name).cloned())
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error> {
        Ok(self.state().sealed.credentials.values().cloned().collect())
    }

    async fn remove_credential(&self, name: &str) -> Result<bool, Error> {
        Ok(self.state().sealed.credentials.remove(name).is_some())
    }

    async fn touch_credential(&self, name: &str) -> Result<(), Error> {
        let now = self.now();
        if let Some(row) = self.state().sealed.credentials.get_mut(name) {
            row.last_used_at = Some(now);
        }
        Ok(())
    }

    async fn put_keychain(&self, row: KeychainRow) -> Result<(), Error> {
        let now = self.now();
        let mut state = self.state();
        let entries = &mut state.sealed.keychain;
        entries.retain(|_, row| row.expires_at.is_none_or(|expires| expires > now));
        entries.insert((row.scope.clone(), row.name.clone()), row);
        Ok(())
    }

    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error> {
        let key = (scope.to_owned(), name.to_owned());
        Ok(self.state().sealed.keychain.get(&key).cloned())
    }

    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error> {
        let key = (scope.to_owned(), name.to_owned());
        Ok(self.state().sealed.keychain.remove(&key).is_some())
    }

    async fn sealed_with_other_keys(&self, key_id: &str) -> Result<Vec<(SealedLocation, SealedValue)>, Error> {
        let state = self.state();
        let credentials = state.sealed.credentials.values().map(|row| {
            let location = SealedLocation::Credential {
                name: row.name.clone(),
                version: row.version,
            };
            (location, row.sealed.clone())
        });
        let keychain = state.sealed.keychain.values().map(|row| {
            let location = SealedLocation::Keychain {
                scope: row.scope.clone(),
                name: row.name.clone(),
            };
            (location, row.sealed.clone())
        });
        let all = credentials.chain(keychain);
        Ok(all.filter(|(_, sealed)| sealed.key_id != key_id).collect())
    }

    async fn rewrap(&self, location: &SealedLocation, from: &SealedValue, to: &SealedValue) -> Result<bool, Error> {
        let mut state = self.state();
        match state.sealed.sealed_mut(location) {
            Some(sealed) if sealed.data_key == from.data_key => {
                sealed.key_id.clone_from(&to.key_id);
                sealed.data_key.clone_from(&to.data_key);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
