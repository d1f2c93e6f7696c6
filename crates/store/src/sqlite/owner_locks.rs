//! Tracks which processes are alive: each holds a locked file, which the kernel unlocks when the process exits. The file
//! of a process that publishes events says so.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use model::time::Time;

use crate::access::StoreProcess;
use crate::error::Error;
use crate::ids::SLOTS;
use crate::rows::OwnerId;
use crate::sqlite::{private_files, store_error};

/// Content of the lock file of a process that publishes events.
const PUBLISHES: &str = "publishes";

/// The lock files of a store.
#[derive(Debug, Clone)]
pub(super) struct OwnerLocks {
    dir: PathBuf,
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(super) struct OwnerLock {
    pub(super) owner: OwnerId,
    file: PathBuf,
    _lock: File,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A remaining file is harmless: no process holds its lock.
        let _ = fs::remove_file(&self.file);
    }
}

impl OwnerLocks {
    pub(super) fn new(store: &Path) -> Self {
        Self {
            dir: store.join("owners"),
        }
    }

    /// Registers this process as an owner.
    pub(super) fn register(&self, now: Time, publishes: bool) -> Result<OwnerLock, Error> {
        self.remove_dead();
        for n in 0..u32::MAX {
            let owner = OwnerId(format!("{}-{:x}-{n}", std::process::id(), now.0).into());
            if let Some(registration) = self.try_register(owner, publishes)? {
                return Ok(registration);
            }
        }
        unreachable!("one of 2^32 names is free")
    }

    fn try_register(&self, owner: OwnerId, publishes: bool) -> Result<Option<OwnerLock>, Error> {
        let file = self.path(&owner);
        let new_file = self.dir.join(format!("{owner}.new"));
        let name = |error| store_error::io_store_error(&new_file, &error);
        let Ok(mut lock) = private_files::create_new(&new_file) else {
            return match new_file.try_exists() {
                Ok(true) => Ok(None),
                _ => Err(name(std::io::ErrorKind::PermissionDenied.into())),
            };
        };
        lock.lock().map_err(name)?;
        if publishes {
            lock.write_all(PUBLISHES.as_bytes()).map_err(name)?;
        }
        // Under its final name, the file is always locked while its process is alive.
        let exists = fs::hard_link(&new_file, &file).is_err();
        fs::remove_file(&new_file).map_err(name)?;
        Ok((!exists).then_some(OwnerLock {
            owner,
            file,
            _lock: lock,
        }))
    }

    /// Whether the process is alive.
    pub(super) fn is_alive(&self, owner: &OwnerId) -> bool {
        let Ok(file) = File::open(self.path(owner)) else {
            return false;
        };
        // A shared lock, so that two processes that check at the same time do not block each other.
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// The process with this ID.
    pub(super) fn process(&self, owner: OwnerId) -> StoreProcess {
        let content = fs::read_to_string(self.path(&owner));
        StoreProcess {
            is_alive: self.is_alive(&owner),
            publishes: content.is_ok_and(|content| content == PUBLISHES),
            address: None,
            heartbeat_at: None,
            owner,
        }
    }

    /// All processes with a lock file.
    pub(super) fn all(&self) -> Vec<StoreProcess> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let locks = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(OwnerId(name.strip_suffix(".lock")?.into()))
        });
        locks.map(|owner| self.process(owner)).collect()
    }

    /// An ID slot that no other live process has, with the lock that reserves it; `None` if all are taken.
    pub(super) fn id_slot(&self) -> Option<(u8, File)> {
        (0..SLOTS).find_map(|slot| {
            let file = private_files::open_new(&self.dir.join(format!("ids-{slot}"))).ok()?;
            file.try_lock().ok()?;
            Some((slot, file))
        })
    }

    /// Removes the lock files of dead processes.
    fn remove_dead(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            if is_lock && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn path(&self, owner: &OwnerId) -> PathBuf {
        self.dir.join(format!("{owner}.lock"))
    }
}
