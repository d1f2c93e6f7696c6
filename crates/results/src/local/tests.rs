//! Bodies survive, and damage to them is noticed.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use model::result_ref::{BodyMeta, RefKind, Scope};
use tempfile::TempDir;
use tokio::io::{AsyncRead, ReadBuf};

use super::*;

fn reference(stored: &Stored) -> ResultRef {
    ResultRef {
        kind: RefKind::Result,
        uri: "noetl://execution/1/step/a/task/b/run/1.1/attempt/1".to_owned(),
        store: stored.store.to_owned(),
        scope: Scope::Execution,
        expires_at: None,
        meta: BodyMeta {
            content_type: "application/json".to_owned(),
            bytes: stored.bytes,
            sha256: stored.sha256.clone(),
            compression: None,
            location: stored.location.clone(),
        },
        extracted: Map::new(),
        preview: None,
    }
}

async fn stored(dir: &TempDir, body: &'static [u8]) -> (Local, ResultRef, PathBuf) {
    let bodies = Local::open(dir.path()).unwrap();
    let stored = bodies.put(Source::Bytes(Bytes::from_static(body))).await;
    let reference = reference(&stored.unwrap());
    let file = bodies.path(&reference.meta.sha256).unwrap();
    (bodies, reference, file)
}

fn drafts(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("bodies/new")).unwrap().count()
}

#[tokio::test]
async fn a_body_comes_back_by_its_content() {
    let dir = TempDir::new().unwrap();
    let (bodies, reference, file) = stored(&dir, b"hello").await;
    assert!(file.is_file());
    assert_eq!(bodies.get(&reference).await.unwrap(), "hello");
    assert_eq!(drafts(&dir), 0);
}

#[tokio::test]
async fn a_stream_is_stored_like_its_bytes() {
    let dir = TempDir::new().unwrap();
    let bodies = Local::open(dir.path()).unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(3 * CHUNK_BYTES + 17).collect();
    let mut reader = &bytes[..];
    let streamed = bodies.put(Source::Stream(&mut reader)).await.unwrap();
    let whole = bodies
        .put(Source::Bytes(bytes.clone().into()))
        .await
        .unwrap();
    assert_eq!(streamed, whole);
    assert_eq!(bodies.get(&reference(&whole)).await.unwrap(), bytes);
}

#[tokio::test]
async fn a_missing_body_is_not_available() {
    let dir = TempDir::new().unwrap();
    let (bodies, mut reference, _) = stored(&dir, b"hello").await;
    bodies.delete(&reference).await.unwrap();
    bodies.delete(&reference).await.unwrap();
    let error = bodies.get(&reference).await.unwrap_err();
    assert_eq!(error.code(), "REFERENCE_NOT_AVAILABLE");
    reference.meta.sha256 = "../../etc/passwd".to_owned();
    let error = bodies.get(&reference).await.unwrap_err();
    assert_eq!(error.code(), "REFERENCE_NOT_AVAILABLE");
}

#[tokio::test]
async fn a_torn_or_changed_body_is_corrupt_and_never_served() {
    let dir = TempDir::new().unwrap();
    let (bodies, reference, file) = stored(&dir, b"hello").await;
    for damage in ["hel", "hellO", ""] {
        fs::write(&file, damage).unwrap();
        let error = bodies.get(&reference).await.unwrap_err();
        assert_eq!(error.code(), "REFERENCE_CORRUPT", "{damage}");
    }
}

#[tokio::test]
async fn storing_a_damaged_body_again_mends_it() {
    let dir = TempDir::new().unwrap();
    let (_, reference, file) = stored(&dir, b"hello").await;
    fs::write(&file, "hellO").unwrap();
    let (bodies, ..) = stored(&dir, b"hello").await;
    assert_eq!(bodies.get(&reference).await.unwrap(), "hello");
}

#[tokio::test]
async fn two_stores_on_one_directory_do_not_share_drafts() {
    let dir = TempDir::new().unwrap();
    let (one, two) = (
        Local::open(dir.path()).unwrap(),
        Local::open(dir.path()).unwrap(),
    );
    let (first, second) = (one.begin().unwrap(), two.begin().unwrap());
    assert_ne!(first.path, second.path);
}

/// Gives some bytes and then fails.
struct Broken(bool);

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.0 {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        self.0 = true;
        buffer.put_slice(b"half");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let bodies = Local::open(dir.path()).unwrap();
    let error = bodies.put(Source::Stream(&mut Broken(false))).await;
    assert!(matches!(error, Err(Error::Interrupted(_))), "{error:?}");
    assert_eq!(drafts(&dir), 0);
}

#[test]
fn a_full_disk_is_said() {
    let error = name(Path::new("x"), ErrorKind::StorageFull.into());
    assert_eq!(error.code(), "STORAGE_FULL");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut draft = Draft {
        file: full,
        path: PathBuf::from("/nowhere/draft"),
        hash: Sha256::new(),
        bytes: 0,
    };
    let error = draft.write(b"x").unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
}
