//! Contract tests of body stores: `results::contract_suite!(site)` runs them against a backend.
//!
//! A [`BodyStoreFixture`] is a new store that several processes can open and whose bodies can be damaged from outside.

use std::io::ErrorKind;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::result_ref::{BodyScope, ResultRef};
use model::time::Time;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{BodyEntry, BodySource, BodyStore, BodyStream, Error, OldBodyQuery, StoredBody, sha256};

/// Larger than the chunks of any store.
const LARGE_BODY_BYTES: usize = 5 * 1024 * 1024 + 17;

/// A new body store.
#[async_trait]
pub trait BodyStoreFixture: Send + Sync {
    /// Opens the store as another process.
    async fn open_store(&self) -> Arc<dyn BodyStore>;

    /// Changes a byte of a stored body, but not its first.
    async fn damage_body(&self, stored: &StoredBody);

    /// Maximum size of a body, if it is smaller than the bodies of the suite.
    fn bytes_max(&self) -> usize {
        LARGE_BODY_BYTES
    }

    /// Whether processes may delete bodies.
    fn may_remove(&self) -> bool {
        true
    }

    /// Whether the store lists its old bodies by the hash of their bytes.
    fn has_age_listing(&self) -> bool {
        self.may_remove()
    }
}

/// Runs the suite; the expression creates a new [`BodyStoreFixture`] for each test.
#[macro_export]
macro_rules! contract_suite {
    ($site:expr) => {
        $crate::contract_suite!(@each $site;
            a_body_comes_back_by_its_content,
            an_empty_body_is_a_body,
            a_large_body_passes_in_and_out_in_pieces,
            a_stream_is_stored_like_its_bytes,
            a_body_that_fills_its_pieces_ends_with_the_last,
            a_range_returns_its_bytes,
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
pub fn reference_to(stored: &StoredBody) -> ResultRef {
    let uri = "noetl://execution/1/step/a/task/b/run/1.1/attempt/1";
    stored.clone().into_reference(uri.to_owned(), BodyScope::Execution)
}

/// Changes the hash of a reference, whether or not the body is compressed.
fn set_hash(reference: &mut ResultRef, hash: String) {
    if let Some(stored_hash) = reference.meta.location.get_mut("stored_sha256") {
        *stored_hash = hash.clone().into();
    }
    reference.meta.sha256 = hash;
}

/// Returns pseudorandom bytes, so that no two parts of a body are equal.
pub fn noise_bytes(count: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

pub(super) fn expect_ok<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("the store returned an error: {error:?}"))
}

fn error_code<T>(result: Result<T, Error>) -> &'static str {
    result.map_or_else(|error| error.code(), |_| "none")
}

async fn put_bytes(bodies: &dyn BodyStore, bytes: &Bytes) -> ResultRef {
    reference_to(&expect_ok(bodies.put(BodySource::Bytes(bytes.clone())).await))
}

/// Returns all bytes of a reading and the number of chunks.
async fn read_all(reading: BodyStream) -> (Vec<u8>, usize) {
    let chunks: Vec<Bytes> = reading.chunks.try_collect().await.expect("no chunk fails");
    (chunks.concat(), chunks.len())
}

async fn read_range(bodies: &dyn BodyStore, reference: &ResultRef, range: Range<u64>) -> (Range<u64>, Vec<u8>) {
    let stream = expect_ok(bodies.read(reference, Some(range)).await);
    (stream.range.clone(), read_all(stream).await.0)
}

/// A stored body can be read by any process.
pub async fn a_body_comes_back_by_its_content(site: &dyn BodyStoreFixture) {
    let body = Bytes::from_static(b"hello");
    let stored = expect_ok(site.open_store().await.put(BodySource::Bytes(body.clone())).await);
    assert_eq!((stored.bytes, stored.sha256.as_str()), (5, sha256(&body).as_str()));
    let read = site.open_store().await.get(&reference_to(&stored)).await;
    assert_eq!(expect_ok(read), body);
}

/// An empty body is stored like any other.
pub async fn an_empty_body_is_a_body(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    let reference = put_bytes(&*bodies, &Bytes::new()).await;
    assert_eq!(expect_ok(bodies.get(&reference).await), "");
    let stream = expect_ok(bodies.read(&reference, None).await);
    assert_eq!((stream.bytes, read_all(stream).await.0), (0, Vec::new()));
}

/// A large body is read in several chunks, so that no caller must hold it in memory.
pub async fn a_large_body_passes_in_and_out_in_pieces(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    let large = site.bytes_max();
    let body = noise_bytes(large);
    let reference = put_bytes(&*bodies, &body).await;
    assert_eq!(expect_ok(bodies.get(&reference).await), body);
    let reading = expect_ok(bodies.read(&reference, None).await);
    assert_eq!((reading.bytes, reading.range.clone()), (large as u64, 0..large as u64));
    let (read, chunk_count) = read_all(reading).await;
    assert!(read == body, "the chunks differ from the body");
    assert!(large < LARGE_BODY_BYTES || chunk_count > 4, "{chunk_count} chunks");
}

/// Bytes and streams are stored alike.
pub async fn a_stream_is_stored_like_its_bytes(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    for count in [1, site.bytes_max()] {
        let body = noise_bytes(count);
        let streamed = expect_ok(bodies.put(BodySource::Stream(&mut &body[..])).await);
        let stored = expect_ok(bodies.put(BodySource::Bytes(body.clone())).await);
        assert_eq!(streamed, stored);
        assert!(expect_ok(bodies.get(&reference_to(&stored)).await) == body);
    }
}

/// A body may end at a chunk boundary.
pub async fn a_body_that_fills_its_pieces_ends_with_the_last(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    for mebibytes in 1..=2 {
        let body = noise_bytes((mebibytes * 1024 * 1024).min(site.bytes_max()));
        let stored = expect_ok(bodies.put(BodySource::Stream(&mut &body[..])).await);
        assert_eq!(stored.bytes, body.len() as u64);
        assert!(expect_ok(bodies.get(&reference_to(&stored)).await) == body);
    }
}

/// A range may start and end anywhere, even outside the body.
pub async fn a_range_returns_its_bytes(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    let large = site.bytes_max();
    let body = noise_bytes(large);
    let reference = put_bytes(&*bodies, &body).await;
    let (end, quarter) = (large as u64, large.min(4 * 1024 * 1024) / 4);
    let ranges = [
        0..1,
        5..5,
        quarter - 1..quarter + 1,
        quarter..3 * quarter,
        large - 3..large,
        7..large,
    ];
    for range in ranges {
        let requested = range.start as u64..range.end as u64;
        let (slice, bytes) = read_range(&*bodies, &reference, requested.clone()).await;
        assert_eq!(slice, requested);
        assert!(bytes == body[range.clone()], "{range:?}");
    }
    let beyond = read_range(&*bodies, &reference, end - 1..end + 9).await;
    assert_eq!(beyond, (end - 1..end, body[large - 1..].to_vec()));
    let outside = read_range(&*bodies, &reference, end + 1..end + 9).await;
    assert_eq!(outside, (end..end, Vec::new()));
}

/// Two processes can store the same body at once.
pub async fn storing_twice_at_once_stores_once(site: &dyn BodyStoreFixture) {
    let (first_store, second_store) = (site.open_store().await, site.open_store().await);
    for count in [100, site.bytes_max()] {
        let body = noise_bytes(count);
        let (mut first, mut second) = (&body[..], &body[..]);
        let (first, second) = tokio::join!(
            first_store.put(BodySource::Stream(&mut first)),
            second_store.put(BodySource::Stream(&mut second)),
        );
        let (first, second) = (expect_ok(first), expect_ok(second));
        assert_eq!(first, second);
        assert!(expect_ok(second_store.get(&reference_to(&first)).await) == body);
    }
}

/// A missing body is reported as missing, whatever its reference contains.
pub async fn a_missing_body_is_not_available(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    let mut reference = put_bytes(&*bodies, &noise_bytes(10)).await;
    for hash in [sha256(b"never stored"), "../../etc/passwd".to_owned(), String::new()] {
        set_hash(&mut reference, hash);
        assert_eq!(error_code(bodies.get(&reference).await), "REFERENCE_NOT_AVAILABLE");
        let read = bodies.read(&reference, None).await;
        assert_eq!(error_code(read), "REFERENCE_NOT_AVAILABLE");
    }
}

/// A deleted body stays deleted until it is stored again.
pub async fn a_removed_body_is_gone_and_can_come_back(site: &dyn BodyStoreFixture) {
    if !site.may_remove() {
        return;
    }
    let bodies = site.open_store().await;
    for count in [10, site.bytes_max()] {
        let body = noise_bytes(count);
        let reference = put_bytes(&*bodies, &body).await;
        expect_ok(bodies.delete(&reference).await);
        expect_ok(bodies.delete(&reference).await);
        assert_eq!(error_code(bodies.get(&reference).await), "REFERENCE_NOT_AVAILABLE");
        assert!(expect_ok(bodies.get(&put_bytes(&*bodies, &body).await).await) == body);
    }
}

/// Damage is detected before the first byte is returned.
pub async fn a_damaged_body_is_corrupt_and_never_served(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    for count in [10, site.bytes_max()] {
        let stored = expect_ok(bodies.put(BodySource::Bytes(noise_bytes(count))).await);
        let reference = reference_to(&stored);
        assert!(bodies.get(&reference).await.is_ok(), "the body is intact before");
        site.damage_body(&stored).await;
        // Another process has no cached copy.
        let other = site.open_store().await;
        assert_eq!(error_code(other.get(&reference).await), "REFERENCE_CORRUPT");
        let read = other.read(&reference, None).await;
        assert_eq!(error_code(read), "REFERENCE_CORRUPT");
    }
}

/// A task that runs again restores its result.
pub async fn storing_a_damaged_body_again_mends_it(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    for count in [10, site.bytes_max()] {
        let body = noise_bytes(count);
        let stored = expect_ok(bodies.put(BodySource::Bytes(body.clone())).await);
        site.damage_body(&stored).await;
        let reference = put_bytes(&*bodies, &body).await;
        assert!(expect_ok(bodies.get(&reference).await) == body);
    }
}

/// Returns some bytes and then fails.
struct FailingBodyReader {
    remaining: Bytes,
}

impl AsyncRead for FailingBodyReader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.remaining.is_empty() {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let count = buffer.remaining().min(self.remaining.len());
        let chunk = self.remaining.split_to(count);
        buffer.put_slice(&chunk);
        Poll::Ready(Ok(()))
    }
}

/// A partial body is not stored, and the task may try again.
pub async fn a_stream_that_breaks_off_leaves_nothing(site: &dyn BodyStoreFixture) {
    let bodies = site.open_store().await;
    for count in [4, site.bytes_max()] {
        let left = noise_bytes(count);
        let mut broken = FailingBodyReader {
            remaining: left.clone(),
        };
        let error = bodies.put(BodySource::Stream(&mut broken)).await;
        let error = error.expect_err("the stream was interrupted");
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        assert!(error.is_retryable());
        let mut half = reference_to(&expect_ok(bodies.put(BodySource::Bytes(noise_bytes(1))).await));
        set_hash(&mut half, sha256(&left));
        assert_eq!(error_code(bodies.get(&half).await), "REFERENCE_NOT_AVAILABLE");
    }
}

/// A body is old from a given time on, is listed in the order of hashes, and is deleted unless it was stored again.
pub async fn only_a_body_that_was_not_stored_again_is_removed_as_old(site: &dyn BodyStoreFixture) {
    if !site.has_age_listing() {
        return;
    }
    let bodies = site.open_store().await;
    let texts = ["one", "two", "three"].map(|text| Bytes::from_static(text.as_bytes()));
    let mut hashes = Vec::new();
    for text in &texts {
        hashes.push(put_bytes(&*bodies, text).await.meta.sha256);
    }
    let sorted = {
        let mut sorted = hashes.clone();
        sorted.sort();
        sorted
    };
    assert_eq!(expect_ok(list_old(&*bodies, Time(0), None, 10).await), []);
    let later = Time(i64::MAX / 4);
    let first = expect_ok(list_old(&*bodies, later, None, 2).await);
    let next_page = list_old(&*bodies, later, Some(&first[1].sha256), 2).await;
    let listed_bodies: Vec<_> = first
        .into_iter()
        .chain(expect_ok(next_page))
        .map(|old| old.sha256)
        .collect();
    assert_eq!(listed_bodies, sorted);
    assert!(!expect_ok(bodies.delete_stored_before(&hashes[0], Time(0)).await));
    assert!(expect_ok(bodies.delete_stored_before(&hashes[0], later).await));
    assert!(!expect_ok(bodies.delete_stored_before(&hashes[0], later).await));
    let stored_again = put_bytes(&*bodies, &texts[0]).await;
    assert_eq!(expect_ok(bodies.get(&stored_again).await), texts[0]);
}

async fn list_old(
    bodies: &dyn BodyStore,
    before: Time,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<BodyEntry>, Error> {
    let query = OldBodyQuery { before, after, limit };
    bodies.stored_before(&query).await
}
