//! Bodies in a local directory: `bodies/ab/cdef…` by SHA-256, written to a temporary file, synced, then renamed.
//!
//! A crash leaves a temporary file at worst, never a partial body under its final name.

mod old_bodies;
mod verified_files;

use std::fs::{self, File};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use model::time::Time;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use self::verified_files::{FileStamp, VerifiedFiles};
use crate::bodies::{BodyEntry, OldBodyQuery, clamp_range};
use crate::disk_space::FullDiskPolicy;
use crate::files::{CHUNK_BYTES, disk_error, prefetched_chunks, remove_stale_files, run_disk_io, sync_dir};
use crate::private_dir::make_private_dir;
use crate::storage_options::StoreKind;
use crate::temp_body_file::TempBodyFile;
use crate::{BodySource, BodyStore, BodyStream, Error, StoredBody};

/// Returns the SHA-256 of these bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Bodies in a directory.
#[derive(Debug, Clone)]
pub struct DirBodyStore {
    dir: PathBuf,
    verified_files: Arc<VerifiedFiles>,
    kind: StoreKind,
    /// Which of the 256 shard directories have durable names.
    shards: Arc<[AtomicBool; 256]>,
}

impl DirBodyStore {
    /// Opens the server's own bodies in `dir/bodies`; creates the directory if necessary.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_kind(dir, StoreKind::Disk)
    }

    /// Opens bodies in `dir/bodies`, in a directory that all processes share.
    pub fn open_shared(dir: &Path) -> Result<Self, Error> {
        let dir = std::path::absolute(dir).map_err(|error| disk_error(dir, error))?;
        Self::open_kind(&dir, StoreKind::Pvc)
    }

    fn open_kind(dir: &Path, kind: StoreKind) -> Result<Self, Error> {
        let outer = dir;
        let dir = outer.join("bodies");
        let scratch = dir.join("new");
        let created = match kind {
            // The lock file next to the bodies is part of the store.
            StoreKind::Disk => [outer, dir.as_path(), scratch.as_path()]
                .into_iter()
                .try_for_each(make_private_dir),
            // Other programs read it; its administrator sets the permissions.
            _ => fs::create_dir_all(&scratch),
        };
        created.map_err(|error| disk_error(&scratch, error))?;
        sync_dir(&dir)?;
        remove_stale_files(&scratch);
        let shards = Arc::new([const { AtomicBool::new(false) }; 256]);
        let checked = Arc::default();
        Ok(Self {
            dir,
            verified_files: checked,
            kind,
            shards,
        })
    }

    fn body_path(&self, sha256: &str) -> Option<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| self.dir.join(&sha256[..2]).join(&sha256[2..]))
    }

    fn create_temp_file(&self) -> Result<TempBodyFile, Error> {
        let dir = self.dir.join("new");
        match self.kind {
            StoreKind::Disk => TempBodyFile::create(&dir),
            _ => TempBodyFile::create_shared(&dir),
        }
    }

    /// Makes the draft durable under the name of its hash.
    fn store_file(&self, draft: &TempBodyFile) -> Result<StoredBody, Error> {
        let sha256 = draft.sha256();
        let target = self.body_path(&sha256).expect("a sha256 in hex names a body");
        let shard = target.parent().expect("a body is in a shard directory");
        // Written even if the file exists: it may be damaged or not synced yet.
        draft.sync()?;
        self.create_shard(shard, &sha256)?;
        let _shared = self.lock_shared()?;
        draft.move_to(&target)?;
        sync_dir(shard)?;
        Ok(StoredBody {
            bytes: draft.bytes,
            store: self.kind.name(),
            compression: None,
            location: self.location(&target),
            sha256,
        })
    }

    /// Creates a shard directory if necessary; this or another process may just have created it. Its name is made
    /// durable once.
    fn create_shard(&self, shard: &Path, sha256: &str) -> Result<(), Error> {
        let number = usize::from_str_radix(&sha256[..2], 16).expect("a sha256 is in hex");
        let is_durable = &self.shards[number];
        if is_durable.load(Ordering::Acquire) && shard.is_dir() {
            return Ok(());
        }
        let created = match self.kind {
            StoreKind::Disk => make_private_dir(shard),
            _ => fs::create_dir_all(shard),
        };
        created.map_err(|error| disk_error(shard, error))?;
        sync_dir(&self.dir)?;
        is_durable.store(true, Ordering::Release);
        Ok(())
    }

    /// Other programs read the files of a shared directory, so its reference contains the path.
    fn location(&self, target: &Path) -> Map<String, Value> {
        let mut location = Map::new();
        if self.kind == StoreKind::Pvc {
            let path = target.to_string_lossy().into_owned();
            location.insert("path".to_owned(), Value::String(path));
        }
        location
    }
}

/// Opens a body and returns its size. Hashes the whole file, unless that was done before and the file has not changed.
fn open_verified(path: &Path, sha256: &str, uri: String, checked: &VerifiedFiles) -> Result<(File, u64), Error> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NotAvailable { uri });
        }
        Err(error) => return Err(disk_error(path, error)),
    };
    let stat = |file: &File| {
        let meta = file.metadata().map_err(|error| disk_error(path, error))?;
        Ok::<_, Error>((FileStamp::new(sha256, &meta), meta.len()))
    };
    let (before, len) = stat(&file)?;
    if checked.contains(&before) {
        return Ok((file, len));
    }
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk).map_err(|error| disk_error(path, error))?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        bytes += read as u64;
    }
    if hex::encode(hash.finalize()) != sha256 {
        let file = path.to_owned();
        return Err(Error::Corrupt { uri, file });
    }
    checked.insert(&before, stat(&file)?.0);
    Ok((file, bytes))
}

#[async_trait]
impl BodyStore for DirBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let store = self.clone();
        let reader = match body {
            BodySource::Bytes(bytes) => {
                let put = move || {
                    let mut draft = store.create_temp_file()?;
                    draft.write(&bytes)?;
                    store.store_file(&draft)
                };
                return run_disk_io(put).await;
            }
            BodySource::Stream(reader) => reader,
        };
        let mut draft = self.create_temp_file()?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = reader.read(&mut chunk).await.map_err(Error::Interrupted)?;
            if read == 0 {
                break;
            }
            (draft, chunk) = draft.write_chunk(chunk, read, FullDiskPolicy::Wait).await?;
        }
        run_disk_io(move || store.store_file(&draft)).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let uri = reference.uri.clone();
        let sha256 = reference.meta.sha256.to_ascii_lowercase();
        let Some(file) = self.body_path(&sha256) else {
            return Err(Error::NotAvailable { uri });
        };
        run_disk_io(move || {
            let bytes = match fs::read(&file) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(Error::NotAvailable { uri });
                }
                Err(error) => return Err(disk_error(&file, error)),
            };
            if self::sha256(&bytes) != sha256 {
                return Err(Error::Corrupt { uri, file });
            }
            Ok(Bytes::from(bytes))
        })
        .await
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let uri = reference.uri.clone();
        let sha256 = reference.meta.sha256.to_ascii_lowercase();
        let Some(path) = self.body_path(&sha256) else {
            return Err(Error::NotAvailable { uri });
        };
        // The returned handle is the checked file, even if another file takes its name.
        let checked = Arc::clone(&self.verified_files);
        run_disk_io(move || {
            let (file, bytes) = open_verified(&path, &sha256, uri, &checked)?;
            let range = clamp_range(range, bytes);
            Ok(BodyStream {
                bytes,
                range: range.clone(),
                chunks: prefetched_chunks(file, range),
            })
        })
        .await
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Some(file) = self.body_path(&reference.meta.sha256.to_ascii_lowercase()) else {
            return Ok(());
        };
        run_disk_io(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk_error(&file, error)),
            _ => Ok(()),
        })
        .await
    }

    async fn stored_before(&self, query: &OldBodyQuery<'_>) -> Result<Vec<BodyEntry>, Error> {
        let (store, after) = (self.clone(), query.after.map(ToOwned::to_owned));
        let (before, limit) = (query.before, query.limit);
        run_disk_io(move || store.list_old(before, after.as_deref(), limit)).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        let (store, sha256) = (self.clone(), sha256.to_ascii_lowercase());
        run_disk_io(move || store.remove_old(&sha256, before)).await
    }
}

#[cfg(test)]
mod tests;
