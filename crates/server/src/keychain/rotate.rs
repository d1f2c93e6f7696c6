//! Rotation of the master key: re-encrypts the data keys one by one. An interrupted rotation can be continued.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;
use store::{AuditOutcome, SealedLocation, SealedValue};

use wire::api::RotateKeyResponse;

use crate::Server;
use crate::access_tokens::Actor;
use crate::keychain::credentials::AuditRecord;
use crate::keychain::error::Error;
use crate::keychain::keys::{MasterKeys, key_file_error, old_key_path, read_key, sync_dir, write_temp_key};
use crate::keychain::seal;
use crate::keychain::shared::Keychain;

/// Maximum number of passes over values that other processes encrypt in the meantime.
const ROUNDS_MAX: usize = 16;

impl Server {
    /// Re-encrypts all data keys: with a new master key if the store generates its own, otherwise with the configured
    /// one.
    pub async fn rotate_master_key(&self, actor: Actor) -> Result<RotateKeyResponse, Error> {
        let keychain = &self.shared.keychain;
        let result = keychain.rotate().await;
        let (outcome, detail) = match &result {
            Ok(response) => (
                AuditOutcome::Done,
                json!({"rewrapped": response.rewrapped, "remaining": response.remaining}),
            ),
            Err(error) => (AuditOutcome::Failed, json!({"code": error.code()})),
        };
        let record = AuditRecord {
            action: "credential.rotate_key",
            resource: "master key",
            outcome,
            detail: Some(detail),
        };
        keychain.audit(actor, record).await?;
        result
    }
}

impl Keychain {
    async fn rotate(&self) -> Result<RotateKeyResponse, Error> {
        let _alone = self.rotation_lock.lock().await;
        let _locked = match &self.config.keys {
            MasterKeys::File(file) => Some(lock_key_file(file).await?),
            MasterKeys::Missing | MasterKeys::Given { .. } => None,
        };
        let file = match &self.config.keys {
            MasterKeys::File(file) => {
                start_rotation(file)?;
                Some(file)
            }
            MasterKeys::Missing | MasterKeys::Given { .. } => None,
        };
        let mut rotated = RotateKeyResponse {
            key_id: self.config.keys.current()?.id(),
            rewrapped: 0,
            remaining: 0,
        };
        for _ in 0..ROUNDS_MAX {
            let old = self
                .store
                .sealed_store()
                .sealed_with_other_keys(&rotated.key_id)
                .await?;
            rotated.remaining = old.len() as u64;
            let mut wrapped = 0;
            for (location, sealed) in &old {
                wrapped += u64::from(self.rewrap(location, sealed).await?);
            }
            rotated.rewrapped += wrapped;
            if wrapped == 0 {
                break;
            }
        }
        if rotated.remaining == 0
            && let Some(file) = file
        {
            finish_rotation(file)?;
        }
        Ok(rotated)
    }

    /// Re-encrypts one data key. Returns false if no available key decrypts it.
    async fn rewrap(&self, location: &SealedLocation, sealed: &SealedValue) -> Result<bool, Error> {
        let Some(old) = self.config.keys.find(&sealed.key_id)? else {
            return Ok(false);
        };
        let new = self.config.keys.current()?;
        let rewrapped = seal::rewrap(&old, &new, location, sealed)?;
        Ok(self.store.sealed_store().rewrap(location, sealed, &rewrapped).await?)
    }

    /// Re-encrypts a value that was encrypted during a rotation. Returns false if its master key no longer exists; the
    /// value must then be encrypted again.
    pub(super) async fn rewrap_if_rotated(
        &self,
        location: &SealedLocation,
        sealed: &SealedValue,
    ) -> Result<bool, Error> {
        let mut sealed = sealed.clone();
        for _ in 0..ROUNDS_MAX {
            let current = self.config.keys.current()?;
            if current.id() == sealed.key_id {
                return Ok(true);
            }
            let Some(old) = self.config.keys.find(&sealed.key_id)? else {
                return Ok(!self.is_stored(location, &sealed).await?);
            };
            let rewrapped = seal::rewrap(&old, &current, location, &sealed)?;
            if !self.store.sealed_store().rewrap(location, &sealed, &rewrapped).await? {
                // The rotation re-encrypted it first, or it was replaced.
                return Ok(true);
            }
            sealed = rewrapped;
        }
        Ok(false)
    }

    /// Whether the store has exactly this encrypted value.
    async fn is_stored(&self, location: &SealedLocation, sealed: &SealedValue) -> Result<bool, Error> {
        let store = self.store.sealed_store();
        let stored_row = match location {
            SealedLocation::Credential { name, .. } => store.credential(name).await?.map(|row| row.sealed),
            SealedLocation::Keychain { scope, name } => store.keychain(scope, name).await?.map(|row| row.sealed),
        };
        Ok(stored_row.is_some_and(|stored_row| stored_row.data_key == sealed.data_key))
    }
}

/// Locks the key file against rotations of other processes on the same directory, until the lock is dropped.
async fn lock_key_file(file: &Path) -> Result<fs::File, Error> {
    let path = file.with_extension("key.lock");
    let lock = {
        let path = path.clone();
        move || {
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            let lock = options.mode(0o600).open(&path)?;
            lock.lock()?;
            Ok(lock)
        }
    };
    let locked = tokio::task::spawn_blocking(lock).await;
    let locked = locked.expect("opening a file does not panic");
    locked.map_err(|error| key_file_error(&path, error))
}

/// Replaces the key with a new one and stores the old one next to it. An interrupted rotation is continued.
fn start_rotation(file: &Path) -> Result<(), Error> {
    let old = old_key_path(file);
    let Some(current) = read_key(file)? else {
        // Nothing was encrypted yet, so a key that is generated on first use is new.
        return Ok(());
    };
    match read_key(&old)? {
        Some(before) if before.id() != current.id() => return Ok(()),
        Some(_) => {}
        None => fs::hard_link(file, &old).map_err(|error| key_file_error(&old, error))?,
    }
    let draft = write_temp_key(file)?;
    fs::rename(&draft, file).map_err(|error| key_file_error(file, error))?;
    sync_dir(file)
}

/// Deletes the old key; no value needs it.
fn finish_rotation(file: &Path) -> Result<(), Error> {
    let old = old_key_path(file);
    match fs::remove_file(&old) {
        Ok(()) => sync_dir(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(key_file_error(&old, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{SqliteStore, Store};
    use tempfile::TempDir;

    use super::*;
    use crate::keychain::cache::CachedValue;
    use crate::keychain::config::KeychainConfig;

    /// A keychain of one process.
    fn keychain(dir: &TempDir, store: &Arc<dyn Store>) -> Arc<Keychain> {
        let config = KeychainConfig {
            keys: MasterKeys::File(dir.path().join("master.key")),
            ..KeychainConfig::default()
        };
        Arc::new(Keychain::new(config, store.clone()))
    }

    fn test_value(value: &str) -> CachedValue {
        CachedValue {
            value: json!({ "pin": value }),
            expires_at: None,
            request_digest: None,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn keys_that_change_in_two_places_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let both = [keychain(&dir, &store), keychain(&dir, &store)];
        for n in 0..4 {
            let name = format!("before-{n}");
            both[0].cache_value("run:1", &name, &test_value("a")).await.unwrap();
        }
        let mut tasks = tokio::task::JoinSet::new();
        for (at, keychain) in both.iter().cloned().enumerate() {
            let setting = keychain.clone();
            tasks.spawn(async move {
                for _ in 0..6 {
                    keychain.rotate().await.unwrap();
                }
            });
            tasks.spawn(async move {
                for n in 0..12 {
                    let name = format!("during-{at}-{n}");
                    setting.cache_value("run:1", &name, &test_value("a")).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let last = both[0].rotate().await.unwrap();
        assert_eq!((last.rewrapped, last.remaining), (28, 0));
        for n in 0..4 {
            let name = format!("before-{n}");
            let cached = both[1].cached_value("run:1", &name).await.unwrap().unwrap();
            assert_eq!(cached.value["pin"], "a");
        }
    }

    #[tokio::test]
    async fn what_no_key_opens_any_more_must_be_sealed_again() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let keychain = keychain(&dir, &store);
        keychain.cache_value("run:1", "pin", &test_value("a")).await.unwrap();
        let row = store.sealed_store().keychain("run:1", "pin").await.unwrap().unwrap();
        let location = SealedLocation::Keychain {
            scope: "run:1".to_owned(),
            name: "pin".to_owned(),
        };
        assert!(keychain.rewrap_if_rotated(&location, &row.sealed).await.unwrap());
        // Simulates a complete rotation between encrypting and storing.
        fs::remove_file(dir.path().join("master.key")).unwrap();
        assert!(!keychain.rewrap_if_rotated(&location, &row.sealed).await.unwrap());
        keychain.cache_value("run:1", "pin", &test_value("b")).await.unwrap();
        // A value that replaced this one does not have to be confirmed.
        assert!(keychain.rewrap_if_rotated(&location, &row.sealed).await.unwrap());
        let cached = keychain.cached_value("run:1", "pin").await.unwrap().unwrap();
        assert_eq!(cached.value["pin"], "b");
    }
}
