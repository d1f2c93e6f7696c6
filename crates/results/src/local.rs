//! Bodies in a local directory: `bodies/ab/cdef…` by sha256, written beside, flushed, then moved into place.
//!
//! A crash leaves a temporary file at worst, never half a body under a body's name.

mod checked;
mod collect;

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use model::result_ref::ResultRef;
use model::time::Time;
use serde_json::Map;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use self::checked::{Checked, Seen};
use crate::bodies::{Old, within};
use crate::{Bodies, Error, Reading, Source, Stored};

/// The name of this kind of store in references.
const STORE: &str = "file";

/// What is read from a stream at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// A draft untouched for so long was left by a process that died.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Tells the drafts of this process apart.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// The sha256 of these bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Bodies in a directory.
#[derive(Debug, Clone)]
pub struct Local {
    dir: PathBuf,
    checked: Arc<Checked>,
}

impl Local {
    /// Bodies under `dir/bodies`, which is made if there is none.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let dir = dir.join("bodies");
        let fresh = dir.join("new");
        fs::create_dir_all(&fresh).map_err(|error| name(&fresh, error))?;
        sync_dir(&dir)?;
        sweep(&fresh);
        let checked = Arc::default();
        Ok(Self { dir, checked })
    }

    fn path(&self, sha256: &str) -> Option<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| self.dir.join(&sha256[..2]).join(&sha256[2..]))
    }

    fn begin(&self) -> Result<Draft, Error> {
        loop {
            let n = DRAFTS.fetch_add(1, Ordering::Relaxed);
            let path = self
                .dir
                .join("new")
                .join(format!("{}-{n}", std::process::id()));
            match File::create_new(&path) {
                Ok(file) => {
                    return Ok(Draft {
                        file,
                        path,
                        hash: Sha256::new(),
                        bytes: 0,
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(name(&path, error)),
            }
        }
    }

    /// Makes the draft durable under the name of its content.
    fn finish(&self, draft: &Draft) -> Result<Stored, Error> {
        let sha256 = hex::encode(draft.hash.clone().finalize());
        let stored = Stored {
            bytes: draft.bytes,
            store: STORE,
            location: Map::new(),
            sha256,
        };
        let target = self
            .path(&stored.sha256)
            .expect("a sha256 in hex names a body");
        let rack = target.parent().expect("a body stands on a rack");
        // Written even if it is there: what is there may be damaged, or not flushed yet.
        draft
            .file
            .sync_all()
            .map_err(|error| name(&draft.path, error))?;
        fs::create_dir_all(rack).map_err(|error| name(rack, error))?;
        let _shared = self.lock_shared()?;
        fs::rename(&draft.path, &target).map_err(|error| name(&target, error))?;
        sync_dir(rack)?;
        // The rack may be new, made here or by another process a moment ago.
        sync_dir(&self.dir)?;
        Ok(stored)
    }
}

/// A body being written; removed unless it is finished.
struct Draft {
    file: File,
    path: PathBuf,
    hash: Sha256,
    bytes: u64,
}

impl Draft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .map_err(|error| name(&self.path, error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the move into place there is nothing left under this name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what dead processes left; what cannot be removed does no harm.
fn sweep(drafts: &Path) {
    let Ok(entries) = fs::read_dir(drafts) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > DRAFT_AGE_MAX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| name(dir, error))
}

fn name(file: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind;
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { file },
        _ => Error::Unavailable {
            file,
            source: error,
        },
    }
}

/// Opens a body, hashes all of it unless that was done before and it has not changed, and answers it with its size.
fn open(path: &Path, sha256: &str, uri: String, checked: &Checked) -> Result<(File, u64), Error> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NotAvailable { uri });
        }
        Err(error) => return Err(name(path, error)),
    };
    let look = |file: &File| {
        let meta = file.metadata().map_err(|error| name(path, error))?;
        Ok::<_, Error>((Seen::new(sha256, &meta), meta.len()))
    };
    let (before, len) = look(&file)?;
    if checked.holds(&before) {
        return Ok((file, len));
    }
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk).map_err(|error| name(path, error))?;
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
    checked.note(&before, look(&file)?.0);
    Ok((file, bytes))
}

/// What is left of a body to be read.
struct Rest {
    file: File,
    range: Range<u64>,
}

impl Rest {
    async fn next(self) -> Option<(std::io::Result<Bytes>, Self)> {
        if self.range.is_empty() {
            return None;
        }
        let read = tokio::task::spawn_blocking(move || self.chunk()).await;
        Some(read.expect("reading a file does not panic"))
    }

    fn chunk(mut self) -> (std::io::Result<Bytes>, Self) {
        let left = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX);
        let mut chunk = vec![0; left.min(CHUNK_BYTES)];
        let begin = SeekFrom::Start(self.range.start);
        let read = self
            .file
            .seek(begin)
            .and_then(|_| self.file.read_exact(&mut chunk));
        match read {
            Ok(()) => {
                self.range.start += chunk.len() as u64;
                (Ok(chunk.into()), self)
            }
            Err(error) => {
                self.range.start = self.range.end;
                (Err(error), self)
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Interrupted(std::io::Error::other(error)))?
}

#[async_trait]
impl Bodies for Local {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let mut draft = self.begin()?;
        match body {
            Source::Bytes(bytes) => {
                draft = blocking(move || draft.write(&bytes).map(|()| draft)).await?;
            }
            Source::Stream(reader) => {
                let mut chunk = vec![0; CHUNK_BYTES];
                loop {
                    let read = reader.read(&mut chunk).await.map_err(Error::Interrupted)?;
                    if read == 0 {
                        break;
                    }
                    (draft, chunk) =
                        blocking(move || draft.write(&chunk[..read]).map(|()| (draft, chunk)))
                            .await?;
                }
            }
        }
        let here = self.clone();
        blocking(move || here.finish(&draft)).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let uri = reference.uri.clone();
        let sha256 = reference.meta.sha256.to_ascii_lowercase();
        let Some(file) = self.path(&sha256) else {
            return Err(Error::NotAvailable { uri });
        };
        blocking(move || {
            let bytes = match fs::read(&file) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(Error::NotAvailable { uri });
                }
                Err(error) => return Err(name(&file, error)),
            };
            if self::sha256(&bytes) != sha256 {
                return Err(Error::Corrupt { uri, file });
            }
            Ok(Bytes::from(bytes))
        })
        .await
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        let uri = reference.uri.clone();
        let sha256 = reference.meta.sha256.to_ascii_lowercase();
        let Some(path) = self.path(&sha256) else {
            return Err(Error::NotAvailable { uri });
        };
        // The file that was checked is the one that is read: another takes its name, but not its place.
        let checked = Arc::clone(&self.checked);
        let (file, bytes) = blocking(move || open(&path, &sha256, uri, &checked)).await?;
        let range = within(range, bytes);
        let rest = Rest {
            file,
            range: range.clone(),
        };
        Ok(Reading {
            bytes,
            range,
            pieces: Box::pin(stream::unfold(rest, Rest::next)),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Some(file) = self.path(&reference.meta.sha256.to_ascii_lowercase()) else {
            return Ok(());
        };
        blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(name(&file, error)),
            _ => Ok(()),
        })
        .await
    }

    async fn stored_before(
        &self,
        before: Time,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Old>, Error> {
        let (here, after) = (self.clone(), after.map(ToOwned::to_owned));
        blocking(move || here.old(before, after.as_deref(), limit)).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        let (here, sha256) = (self.clone(), sha256.to_ascii_lowercase());
        blocking(move || here.remove_old(&sha256, before)).await
    }
}

#[cfg(test)]
mod tests;
