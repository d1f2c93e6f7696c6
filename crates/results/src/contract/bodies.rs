//! Contract tests of body stores: `results::contract_suite!(site)` runs them against a backend.
//!
//! A [`Site`] is a new store that several processes can open and whose bodies can be damaged from outside.

use std::io::ErrorKind;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::result_ref::{BodyMeta, RefKind, ResultRef, Scope};
use model::time::Time;
use serde_json::Map;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{Bodies, Error, Reading, Source, Stored, sha256};

/// Larger than the chunks of any store.
const LARGE: usize = 5 * 1024 * 1024 + 17;

/// A new body store.
#[async_trait]
pub trait Site: Send + Sync {
    /// Opens the store as another process.
    async fn join(&self) -> Arc<dyn Bodies>;

    /// Changes a byte of a stored body, but not its first.
    async fn damage(&self, stored: &Stored);

    /// Maximum size of a body, if it is smaller than the bodies of the suite.
    fn bytes_max(&self) -> usize {
        LARGE
    }

    /// Whether processes may delete bodies.
    fn removes(&self) -> bool {
        true
    }

    /// Whether the store lists its old bodies by the hash of their bytes.
    fn tells_the_old(&self) -> bool {
        self.removes()
    }
}

/// Runs the suite; the expression creates a new [`Site`] for each test.
#[macro_export]
macro_rules! contract_suite {
    ($site:expr) => {
        $crate::contract_suite!(@each $site;
            a_body_comes_back_by_its_content,
            an_empty_body_is_a_body,
            a_large_body_passes_in_and_out_in_pieces,
            a_stream_is_stored_like_its_bytes,
            a_body_that_fills_its_pieces_ends_with_the_last,
            a_range_is_what_lies_in_it,
            storing_twice_at_once_stores_once,
            a_missing_body_is_not_available,
            a_removed_body_is_gone_and_can_come_back,
            a_damaged_body_is_corrupt_and_never_served,
            storing_a_damaged_body_again_mends_it,
            a_stream_that_breaks_off_leaves_nothing,
            only_a_body_that_was_not_stored_again_is_removed_as_old
        );
    };
    (@each $site:expr; $($fact:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let site = $site;
                $crate::contract::$fact(&site).await;
            }
        )*
    };
}

/// Builds a reference to a body.
pub fn reference(stored: &Stored) -> ResultRef {
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
            compression: stored.compression.map(str::to_owned),
            location: stored.location.clone(),
        },
        extracted: Map::new(),
        keys: Vec::new(),
        preview: None,
    }
}

/// Changes the hash of a reference, whether or not the body is compressed.
fn rename(reference: &mut ResultRef, hash: String) {
    if let Some(held) = reference.meta.location.get_mut("stored_sha256") {
        *held = hash.clone().into();
    }
    reference.meta.sha256 = hash;
}

/// Returns pseudorandom bytes, so that no two parts of a body are equal.
pub fn noise(count: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn ok<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("the store returned an error: {error:?}"))
}

fn code<T>(result: Result<T, Error>) -> &'static str {
    result.map_or_else(|error| error.code(), |_| "none")
}

async fn put(bodies: &dyn Bodies, bytes: &Bytes) -> ResultRef {
    reference(&ok(bodies.put(Source::Bytes(bytes.clone())).await))
}

/// Returns all bytes of a reading and the number of chunks.
async fn all(reading: Reading) -> (Vec<u8>, usize) {
    let pieces: Vec<Bytes> = reading.pieces.try_collect().await.expect("no chunk fails");
    (pieces.concat(), pieces.len())
}

async fn read(
    bodies: &dyn Bodies,
    reference: &ResultRef,
    range: Range<u64>,
) -> (Range<u64>, Vec<u8>) {
    let reading = ok(bodies.read(reference, Some(range)).await);
    (reading.range.clone(), all(reading).await.0)
}

/// A stored body can be read by any process.
pub async fn a_body_comes_back_by_its_content(site: &dyn Site) {
    let body = Bytes::from_static(b"hello");
    let stored = ok(site.join().await.put(Source::Bytes(body.clone())).await);
    assert_eq!(
        (stored.bytes, stored.sha256.as_str()),
        (5, sha256(&body).as_str())
    );
    let read = site.join().await.get(&reference(&stored)).await;
    assert_eq!(ok(read), body);
}

/// An empty body is stored like any other.
pub async fn an_empty_body_is_a_body(site: &dyn Site) {
    let bodies = site.join().await;
    let reference = put(&*bodies, &Bytes::new()).await;
    assert_eq!(ok(bodies.get(&reference).await), "");
    let reading = ok(bodies.read(&reference, None).await);
    assert_eq!((reading.bytes, all(reading).await.0), (0, Vec::new()));
}

/// A large body is read in several chunks, so that no caller must hold it in memory.
pub async fn a_large_body_passes_in_and_out_in_pieces(site: &dyn Site) {
    let bodies = site.join().await;
    let large = site.bytes_max();
    let body = noise(large);
    let reference = put(&*bodies, &body).await;
    assert_eq!(ok(bodies.get(&reference).await), body);
    let reading = ok(bodies.read(&reference, None).await);
    assert_eq!(
        (reading.bytes, reading.range.clone()),
        (large as u64, 0..large as u64)
    );
    let (read, pieces) = all(reading).await;
    assert!(read == body, "the chunks differ from the body");
    assert!(large < LARGE || pieces > 4, "{pieces} chunks");
}

/// Bytes and streams are stored alike.
pub async fn a_stream_is_stored_like_its_bytes(site: &dyn Site) {
    let bodies = site.join().await;
    for count in [1, site.bytes_max()] {
        let body = noise(count);
        let streamed = ok(bodies.put(Source::Stream(&mut &body[..])).await);
        let whole = ok(bodies.put(Source::Bytes(body.clone())).await);
        assert_eq!(streamed, whole);
        assert!(ok(bodies.get(&reference(&whole)).await) == body);
    }
}

/// A body may end at a chunk boundary.
pub async fn a_body_that_fills_its_pieces_ends_with_the_last(site: &dyn Site) {
    let bodies = site.join().await;
    for mebibytes in 1..=2 {
        let body = noise((mebibytes * 1024 * 1024).min(site.bytes_max()));
        let stored = ok(bodies.put(Source::Stream(&mut &body[..])).await);
        assert_eq!(stored.bytes, body.len() as u64);
        assert!(ok(bodies.get(&reference(&stored)).await) == body);
    }
}

/// A range may start and end anywhere, even outside the body.
pub async fn a_range_is_what_lies_in_it(site: &dyn Site) {
    let bodies = site.join().await;
    let large = site.bytes_max();
    let body = noise(large);
    let reference = put(&*bodies, &body).await;
    let (end, piece) = (large as u64, large.min(4 * 1024 * 1024) / 4);
    let ranges = [
        0..1,
        5..5,
        piece - 1..piece + 1,
        piece..3 * piece,
        large - 3..large,
        7..large,
    ];
    for range in ranges {
        let asked = range.start as u64..range.end as u64;
        let (found, bytes) = read(&*bodies, &reference, asked.clone()).await;
        assert_eq!(found, asked);
        assert!(bytes == body[range.clone()], "{range:?}");
    }
    let beyond = read(&*bodies, &reference, end - 1..end + 9).await;
    assert_eq!(beyond, (end - 1..end, body[large - 1..].to_vec()));
    let outside = read(&*bodies, &reference, end + 1..end + 9).await;
    assert_eq!(outside, (end..end, Vec::new()));
}

/// Two processes can store the same body at once.
pub async fn storing_twice_at_once_stores_once(site: &dyn Site) {
    let (one, two) = (site.join().await, site.join().await);
    for count in [100, site.bytes_max()] {
        let body = noise(count);
        let (mut first, mut second) = (&body[..], &body[..]);
        let (first, second) = tokio::join!(
            one.put(Source::Stream(&mut first)),
            two.put(Source::Stream(&mut second)),
        );
        let (first, second) = (ok(first), ok(second));
        assert_eq!(first, second);
        assert!(ok(two.get(&reference(&first)).await) == body);
    }
}

/// A missing body is reported as missing, whatever its reference contains.
pub async fn a_missing_body_is_not_available(site: &dyn Site) {
    let bodies = site.join().await;
    let mut reference = put(&*bodies, &noise(10)).await;
    for hash in [
        sha256(b"never stored"),
        "../../etc/passwd".to_owned(),
        String::new(),
    ] {
        rename(&mut reference, hash);
        assert_eq!(
            code(bodies.get(&reference).await),
            "REFERENCE_NOT_AVAILABLE"
        );
        let read = bodies.read(&reference, None).await;
        assert_eq!(code(read), "REFERENCE_NOT_AVAILABLE");
    }
}

/// A deleted body stays deleted until it is stored again.
pub async fn a_removed_body_is_gone_and_can_come_back(site: &dyn Site) {
    if !site.removes() {
        return;
    }
    let bodies = site.join().await;
    for count in [10, site.bytes_max()] {
        let body = noise(count);
        let reference = put(&*bodies, &body).await;
        ok(bodies.delete(&reference).await);
        ok(bodies.delete(&reference).await);
        assert_eq!(
            code(bodies.get(&reference).await),
            "REFERENCE_NOT_AVAILABLE"
        );
        assert!(ok(bodies.get(&put(&*bodies, &body).await).await) == body);
    }
}

/// Damage is detected before the first byte is returned.
pub async fn a_damaged_body_is_corrupt_and_never_served(site: &dyn Site) {
    let bodies = site.join().await;
    for count in [10, site.bytes_max()] {
        let stored = ok(bodies.put(Source::Bytes(noise(count))).await);
        let reference = reference(&stored);
        assert!(
            bodies.get(&reference).await.is_ok(),
            "the body is intact before"
        );
        site.damage(&stored).await;
        // Another process has no cached copy.
        let other = site.join().await;
        assert_eq!(code(other.get(&reference).await), "REFERENCE_CORRUPT");
        let read = other.read(&reference, None).await;
        assert_eq!(code(read), "REFERENCE_CORRUPT");
    }
}

/// A task that runs again restores its result.
pub async fn storing_a_damaged_body_again_mends_it(site: &dyn Site) {
    let bodies = site.join().await;
    for count in [10, site.bytes_max()] {
        let body = noise(count);
        let stored = ok(bodies.put(Source::Bytes(body.clone())).await);
        site.damage(&stored).await;
        let reference = put(&*bodies, &body).await;
        assert!(ok(bodies.get(&reference).await) == body);
    }
}

/// Returns some bytes and then fails.
struct Broken {
    left: Bytes,
}

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.left.is_empty() {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let count = buffer.remaining().min(self.left.len());
        let piece = self.left.split_to(count);
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

/// A partial body is not stored, and the task may try again.
pub async fn a_stream_that_breaks_off_leaves_nothing(site: &dyn Site) {
    let bodies = site.join().await;
    for count in [4, site.bytes_max()] {
        let left = noise(count);
        let mut broken = Broken { left: left.clone() };
        let error = bodies.put(Source::Stream(&mut broken)).await;
        let error = error.expect_err("the stream was interrupted");
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        assert!(error.is_retryable());
        let mut half = reference(&ok(bodies.put(Source::Bytes(noise(1))).await));
        rename(&mut half, sha256(&left));
        assert_eq!(code(bodies.get(&half).await), "REFERENCE_NOT_AVAILABLE");
    }
}

/// A body is old from a given time on, is listed in the order of hashes, and is deleted unless it was stored again.
pub async fn only_a_body_that_was_not_stored_again_is_removed_as_old(site: &dyn Site) {
    if !site.tells_the_old() {
        return;
    }
    let bodies = site.join().await;
    let texts = ["one", "two", "three"].map(|text| Bytes::from_static(text.as_bytes()));
    let mut hashes = Vec::new();
    for text in &texts {
        hashes.push(put(&*bodies, text).await.meta.sha256);
    }
    let sorted = {
        let mut sorted = hashes.clone();
        sorted.sort();
        sorted
    };
    assert_eq!(ok(bodies.stored_before(Time(0), None, 10).await), []);
    let later = Time(i64::MAX / 4);
    let first = ok(bodies.stored_before(later, None, 2).await);
    let rest = bodies.stored_before(later, Some(&first[1].sha256), 2).await;
    let found: Vec<_> = first
        .into_iter()
        .chain(ok(rest))
        .map(|old| old.sha256)
        .collect();
    assert_eq!(found, sorted);
    assert!(!ok(bodies.delete_stored_before(&hashes[0], Time(0)).await));
    assert!(ok(bodies.delete_stored_before(&hashes[0], later).await));
    assert!(!ok(bodies.delete_stored_before(&hashes[0], later).await));
    let again = put(&*bodies, &texts[0]).await;
    assert_eq!(ok(bodies.get(&again).await), texts[0]);
}
