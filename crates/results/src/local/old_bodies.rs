//! Old bodies in a directory: lists them and deletes them without losing a body that is being stored.
//!
//! Storing holds a shared lock on `bodies.lock`, next to the directory, while a body gets its name. Deleting holds an
//! exclusive lock while it checks the age and deletes. So the deleted file is the checked one.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use model::time::Time;

use super::{DirBodyStore, disk_error};
use crate::bodies::BodyEntry;
use crate::error::Error;
use crate::storage_options::StoreKind;

/// Extension of the lock file, which is next to the directory.
const LOCK_EXTENSION: &str = "lock";

impl DirBodyStore {
    /// Takes the shared lock, for storing.
    pub(super) fn lock_shared(&self) -> Result<File, Error> {
        self.lock_with(File::lock_shared)
    }

    fn lock_with(&self, lock: fn(&File) -> io::Result<()>) -> Result<File, Error> {
        let path = self.dir.with_extension(LOCK_EXTENSION);
        let mut options = File::options();
        options.create(true).append(true);
        if self.kind == StoreKind::Disk {
            options.mode(0o600);
        }
        let file = options.open(&path);
        let locked = file.and_then(|file| lock(&file).map(|()| file));
        locked.map_err(|error| disk_error(&path, error))
    }

    /// Lists bodies older than `before` whose hashes follow `after`, one shard directory after another.
    pub(super) fn list_old(&self, before: Time, after: Option<&str>, limit: usize) -> Result<Vec<BodyEntry>, Error> {
        let mut bodies = Vec::new();
        for shard in 0..=u8::MAX {
            let shard = format!("{shard:02x}");
            if bodies.len() >= limit {
                break;
            }
            if after.is_some_and(|after| shard.as_str() < &after[..after.len().min(2)]) {
                continue;
            }
            let mut shard_bodies = list_shard(&self.dir.join(&shard), &shard, before)?;
            shard_bodies.retain(|old| after.is_none_or(|after| old.sha256.as_str() > after));
            shard_bodies.sort_by(|a, b| a.sha256.cmp(&b.sha256));
            bodies.extend(shard_bodies);
        }
        bodies.truncate(limit);
        Ok(bodies)
    }

    /// Deletes a body that is older than `before`; returns whether it was deleted.
    pub(super) fn remove_old(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        let Some(file) = self.body_path(sha256) else {
            return Ok(false);
        };
        let _alone = self.lock_with(File::lock)?;
        match fs::metadata(&file) {
            Ok(meta) if is_older(&meta, before) => {
                fs::remove_file(&file).map_err(|error| disk_error(&file, error))?;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(disk_error(&file, error)),
        }
    }
}

fn list_shard(dir: &Path, shard: &str, before: Time) -> Result<Vec<BodyEntry>, Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(disk_error(dir, error)),
    };
    let mut bodies = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| disk_error(dir, error))?;
        let sha256 = format!("{shard}{}", entry.file_name().to_string_lossy());
        let meta = match entry.metadata() {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(disk_error(&entry.path(), error)),
        };
        if model::result_ref::is_sha256(&sha256) && is_older(&meta, before) {
            let bytes = meta.len();
            bodies.push(BodyEntry { sha256, bytes });
        }
    }
    Ok(bodies)
}

fn is_older(meta: &Metadata, before: Time) -> bool {
    let micros = u64::try_from(before.0).unwrap_or(0);
    let before = SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
    meta.is_file() && meta.modified().is_ok_and(|modified| modified < before)
}
