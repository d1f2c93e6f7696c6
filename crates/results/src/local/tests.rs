//! Bodies are durable, and damage is detected.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::contract::{BodyStoreFixture, reference_to};

#[async_trait]
impl BodyStoreFixture for TempDir {
    async fn open_store(&self) -> std::sync::Arc<dyn BodyStore> {
        std::sync::Arc::new(DirBodyStore::open(self.path()).unwrap())
    }

    async fn damage_body(&self, stored: &StoredBody) {
        let local = DirBodyStore::open(self.path()).unwrap();
        let file = local.body_path(&stored.sha256).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
    }
}

crate::contract_suite!(TempDir::new().unwrap());

async fn store_body(dir: &TempDir, body: &'static [u8]) -> (DirBodyStore, ResultRef, PathBuf) {
    let bodies = DirBodyStore::open(dir.path()).unwrap();
    let stored = bodies.put(BodySource::Bytes(Bytes::from_static(body))).await;
    let reference = reference_to(&stored.unwrap());
    let file = bodies.body_path(&reference.meta.sha256).unwrap();
    (bodies, reference, file)
}

fn count_drafts(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("bodies/new")).unwrap().count()
}

#[tokio::test]
async fn a_torn_or_changed_body_is_corrupt_and_never_served() {
    let dir = TempDir::new().unwrap();
    let (bodies, reference, file) = store_body(&dir, b"hello").await;
    for damage in ["hel", "hellO", ""] {
        fs::write(&file, damage).unwrap();
        let error = bodies.get(&reference).await.unwrap_err();
        assert_eq!(error.code(), "REFERENCE_CORRUPT", "{damage}");
    }
}

#[tokio::test]
async fn two_stores_on_one_directory_do_not_share_drafts() {
    let dir = TempDir::new().unwrap();
    let (first_store, second_store) = (
        DirBodyStore::open(dir.path()).unwrap(),
        DirBodyStore::open(dir.path()).unwrap(),
    );
    let (first, second) = (
        first_store.create_temp_file().unwrap(),
        second_store.create_temp_file().unwrap(),
    );
    assert_ne!(first.path, second.path);
}

/// Returns some bytes and then fails.
struct FailingReader(bool);

impl AsyncRead for FailingReader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.0 {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        self.0 = true;
        buffer.put_slice(b"half");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_leaves_no_draft() {
    let dir = TempDir::new().unwrap();
    let bodies = DirBodyStore::open(dir.path()).unwrap();
    let error = bodies.put(BodySource::Stream(&mut FailingReader(false))).await;
    assert!(matches!(error, Err(Error::Interrupted(_))), "{error:?}");
    assert_eq!(count_drafts(&dir), 0);
}

#[test]
fn a_full_disk_is_reported() {
    let error = disk_error(Path::new("x"), ErrorKind::StorageFull.into());
    assert_eq!(error.code(), "STORAGE_FULL");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut draft = TempBodyFile {
        file: full,
        path: PathBuf::from("/nowhere/draft"),
        hash: Sha256::new(),
        bytes: 0,
    };
    let error = draft.write(b"x").unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_stored_while_it_is_collected_stays() {
    let dir = TempDir::new().unwrap();
    let (bodies, reference, file) = store_body(&dir, b"shared").await;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let before = now.saturating_sub(Duration::from_secs(3600));
    let before = Time(i64::try_from(before.as_micros()).unwrap());
    for _ in 0..200 {
        let old = std::time::UNIX_EPOCH + Duration::from_secs(1);
        File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(old)
            .unwrap();
        let storing = bodies.put(BodySource::Bytes(Bytes::from_static(b"shared")));
        let removing = bodies.delete_stored_before(&reference.meta.sha256, before);
        let (stored, removed) = tokio::join!(storing, removing);
        stored.unwrap();
        removed.unwrap();
        assert_eq!(bodies.get(&reference).await.unwrap(), &b"shared"[..]);
    }
}

#[tokio::test]
async fn the_location_of_a_body_in_a_shared_directory_is_its_path() {
    let dir = TempDir::new().unwrap();
    let bodies = DirBodyStore::open_shared(dir.path()).unwrap();
    let body = Bytes::from_static(b"hello");
    let stored = bodies.put(BodySource::Bytes(body.clone())).await.unwrap();
    assert_eq!(stored.store, "pvc");
    let path = stored.location["path"].as_str().unwrap();
    assert_eq!(fs::read(path).unwrap(), body);
    let own = DirBodyStore::open(dir.path()).unwrap();
    let stored = own.put(BodySource::Bytes(body)).await.unwrap();
    assert_eq!((stored.store, json!(stored.location)), ("disk", json!({})));
}
