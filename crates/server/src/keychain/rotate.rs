//! A new master key: data keys are wrapped anew one by one. Broken off, it goes on where it was.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;
use store::{AuditOutcome, Sealed, SealedPlace};

use crate::Server;
use crate::keychain::credentials::Done;
use crate::keychain::error::Error;
use crate::keychain::keys::{MasterKeys, old_file, read, sync_folder, unusable, write_draft};
use crate::keychain::lookup::Keychain;
use crate::keychain::seal;
use crate::tokens::Actor;

/// How often what others seal meanwhile is looked for.
const ROUNDS_MAX: usize = 16;

/// What a change of the master key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// What seals now.
    pub key_id: String,
    /// How many data keys were wrapped anew.
    pub rewrapped: u64,
    /// How many are still wrapped by another key; the old one is needed until there are none.
    pub remaining: u64,
}

impl Server {
    /// Wraps every data key anew: under a new key where the store makes its own, else under the one that was given.
    pub async fn rotate_master_key(&self, actor: Actor) -> Result<Rotated, Error> {
        let keychain = &self.shared.keychain;
        let rotated = keychain.rotate().await;
        let (outcome, detail) = match &rotated {
            Ok(done) => (
                AuditOutcome::Done,
                json!({"rewrapped": done.rewrapped, "remaining": done.remaining}),
            ),
            Err(error) => (AuditOutcome::Failed, json!({"code": error.code()})),
        };
        let done = Done {
            action: "credential.rotate_key",
            resource: "master key",
            outcome,
            detail: Some(detail),
        };
        keychain.audit(actor, done).await?;
        rotated
    }
}

impl Keychain {
    async fn rotate(&self) -> Result<Rotated, Error> {
        let _alone = self.rotating.lock().await;
        let _locked = match &self.config.keys {
            MasterKeys::File(file) => Some(locked(file).await?),
            MasterKeys::Missing | MasterKeys::Given { .. } => None,
        };
        let file = match &self.config.keys {
            MasterKeys::File(file) => {
                begin(file)?;
                Some(file)
            }
            MasterKeys::Missing | MasterKeys::Given { .. } => None,
        };
        let mut rotated = Rotated {
            key_id: self.config.keys.current()?.id(),
            rewrapped: 0,
            remaining: 0,
        };
        for _ in 0..ROUNDS_MAX {
            let old = self.store.safe().sealed_otherwise(&rotated.key_id).await?;
            rotated.remaining = old.len() as u64;
            let mut wrapped = 0;
            for (place, sealed) in &old {
                wrapped += u64::from(self.rewrap(place, sealed).await?);
            }
            rotated.rewrapped += wrapped;
            if wrapped == 0 {
                break;
            }
        }
        if rotated.remaining == 0
            && let Some(file) = file
        {
            end(file)?;
        }
        Ok(rotated)
    }

    /// Wraps one data key anew; what no key at hand opens is left as it is.
    async fn rewrap(&self, place: &SealedPlace, sealed: &Sealed) -> Result<bool, Error> {
        let Some(old) = self.config.keys.find(&sealed.key_id)? else {
            return Ok(false);
        };
        let new = self.config.keys.current()?;
        let again = seal::rewrap(&old, &new, place, sealed)?;
        Ok(self.store.safe().rewrap(place, sealed, &again).await?)
    }

    /// Wraps anew what was sealed while the master key changed. False where its key is lost already: it must be sealed
    /// again.
    pub(super) async fn confirm(
        &self,
        place: &SealedPlace,
        sealed: &Sealed,
    ) -> Result<bool, Error> {
        let mut sealed = sealed.clone();
        for _ in 0..ROUNDS_MAX {
            let current = self.config.keys.current()?;
            if current.id() == sealed.key_id {
                return Ok(true);
            }
            let Some(old) = self.config.keys.find(&sealed.key_id)? else {
                return Ok(!self.is_kept(place, &sealed).await?);
            };
            let again = seal::rewrap(&old, &current, place, &sealed)?;
            if !self.store.safe().rewrap(place, &sealed, &again).await? {
                // Whoever changes the key wrapped it first, or it was replaced.
                return Ok(true);
            }
            sealed = again;
        }
        Ok(false)
    }

    /// Whether this very value is what is kept.
    async fn is_kept(&self, place: &SealedPlace, sealed: &Sealed) -> Result<bool, Error> {
        let safe = self.store.safe();
        let kept = match place {
            SealedPlace::Credential { name, .. } => {
                safe.credential(name).await?.map(|row| row.sealed)
            }
            SealedPlace::Keychain { scope, name } => {
                safe.keychain(scope, name).await?.map(|row| row.sealed)
            }
        };
        Ok(kept.is_some_and(|kept| kept.data_key == sealed.data_key))
    }
}

/// Keeps other processes on the same directory from changing the key at the same time, until it is dropped.
async fn locked(file: &Path) -> Result<fs::File, Error> {
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
    locked.map_err(|error| unusable(&path, error))
}

/// Puts a new key in place of the old, which stays beside it. A change that was broken off is gone on with.
fn begin(file: &Path) -> Result<(), Error> {
    let old = old_file(file);
    let Some(current) = read(file)? else {
        // Nothing was ever sealed: the key that is made at first need is as new as any.
        return Ok(());
    };
    match read(&old)? {
        Some(before) if before.id() != current.id() => return Ok(()),
        Some(_) => {}
        None => fs::hard_link(file, &old).map_err(|error| unusable(&old, error))?,
    }
    let draft = write_draft(file)?;
    fs::rename(&draft, file).map_err(|error| unusable(file, error))?;
    sync_folder(file)
}

/// Forgets the old key: nothing needs it.
fn end(file: &Path) -> Result<(), Error> {
    let old = old_file(file);
    match fs::remove_file(&old) {
        Ok(()) => sync_folder(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unusable(&old, error)),
    }
}
