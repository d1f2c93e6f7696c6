//! A temporary file for a body: hashed while it is written, deleted unless it is moved to its final name.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::disk_space::{FullDiskPolicy, write_at, write_when_free};
use crate::files::disk_error;
use crate::private_dir::make_private_dir;

/// Counter for unique file names in this process.
static NEXT_FILE_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Chunks of at least this size are hashed on a second thread while they are written.
const THREADED_HASH_BYTES_MIN: usize = 1024 * 1024;

/// A body being written.
#[derive(Debug)]
pub(crate) struct TempBodyFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) hash: Sha256,
    pub(crate) bytes: u64,
}

impl TempBodyFile {
    /// Creates a draft in this directory.
    pub(crate) fn create(dir: &Path) -> Result<Self, Error> {
        Self::create_with_mode(dir, 0o600)
    }

    /// Creates a draft of a body that other programs may read.
    pub(crate) fn create_shared(dir: &Path) -> Result<Self, Error> {
        Self::create_with_mode(dir, 0o644)
    }

    fn create_with_mode(dir: &Path, mode: u32) -> Result<Self, Error> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        options.mode(mode);
        let mut is_dir_created = false;
        loop {
            let n = NEXT_FILE_NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{}-{n}", std::process::id()));
            match options.open(&path) {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        path,
                        hash: Sha256::new(),
                        bytes: 0,
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                // The directory may not exist yet in a new worker, and a cache may be emptied while it is used.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_dir_created => {
                    make_private_dir(dir).map_err(|error| disk_error(dir, error))?;
                    is_dir_created = true;
                }
                Err(error) => return Err(disk_error(&path, error)),
            }
        }
    }

    /// Appends bytes; after an error the same bytes may be written again.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut hash = self.hash.clone();
        let write = || write_at(&self.file, &self.path, bytes, self.bytes);
        if bytes.len() < THREADED_HASH_BYTES_MIN {
            write()?;
            hash.update(bytes);
        } else {
            std::thread::scope(|scope| {
                let hashing = scope.spawn(|| hash.update(bytes));
                let written = write();
                hashing.join().expect("hashing does not panic");
                written
            })?;
        }
        self.hash = hash;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Appends the first `count` bytes of a chunk on the blocking pool; returns the chunk for reuse.
    pub(crate) async fn write_chunk(
        self,
        chunk: Vec<u8>,
        count: usize,
        when_full: FullDiskPolicy,
    ) -> Result<(Self, Vec<u8>), Error> {
        let write = move |(draft, chunk): &mut (Self, Vec<u8>)| draft.write(&chunk[..count]);
        write_when_free((self, chunk), when_full, write).await
    }

    /// Returns the hash of the written bytes, in hex.
    pub(crate) fn sha256(&self) -> String {
        hex::encode(self.hash.clone().finalize())
    }

    /// Makes the written bytes durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let synced = self.file.sync_all();
        synced.map_err(|error| disk_error(&self.path, error))
    }

    /// Moves the file to its final name; open handles stay valid.
    pub(crate) fn move_to(&self, target: &Path) -> Result<(), Error> {
        let renamed = fs::rename(&self.path, target).or_else(|error| match target.parent() {
            Some(parent) if error.kind() == std::io::ErrorKind::NotFound => {
                make_private_dir(parent)?;
                fs::rename(&self.path, target)
            }
            _ => Err(error),
        });
        renamed.map_err(|error| disk_error(target, error))
    }
}

impl Drop for TempBodyFile {
    fn drop(&mut self) {
        // After `move_to` there is no file with this name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_created() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (drafts, data_dir) = (temp_dir.path().join("new"), temp_dir.path().join("data"));
        for _ in 0..2 {
            let mut draft = TempBodyFile::create(&drafts).unwrap();
            draft.write(b"body").unwrap();
            draft.move_to(&data_dir.join("body")).unwrap();
            assert_eq!(fs::read(data_dir.join("body")).unwrap(), b"body");
            fs::remove_dir_all(&drafts).unwrap();
            fs::remove_dir_all(&data_dir).unwrap();
        }
    }
}
