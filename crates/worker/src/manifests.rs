//! The body store that tasks use: reads bodies from their store, and the combined parts of result manifests from the
//! server.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, future};
use model::result_ref::{IN_MEMORY_BYTES_MAX, RefKind, ResultRef};
use results::{BodySource, BodyStore, BodyStream, ByteStream, Error, StorageOptions, StoredBody};
use wire::Transport;

/// Name of the source of manifests in errors.
const MANIFEST_LOCATION: &str = "the server's event log";

/// Body store that also reads manifests.
pub(crate) struct ManifestBodyStore {
    pub(crate) bodies: Arc<dyn BodyStore>,
    pub(crate) transport: Arc<dyn Transport>,
}

impl ManifestBodyStore {
    async fn open_manifest(&self, manifest: &ResultRef) -> Result<ByteStream, Error> {
        let chunks = self.transport.manifest(manifest).await;
        chunks.map_err(|error| match error {
            wire::Error::NotFound(_) => Error::NotAvailable {
                uri: manifest.uri.clone(),
            },
            wire::Error::Refused(reason) => Error::Refused {
                file: MANIFEST_LOCATION.into(),
                source: std::io::Error::other(reason),
            },
            error => Error::Unavailable {
                file: MANIFEST_LOCATION.into(),
                source: std::io::Error::other(error),
            },
        })
    }
}

/// Error for a manifest whose parts exceed the limit.
fn too_large() -> Error {
    Error::TooLarge {
        bytes_max: IN_MEMORY_BYTES_MAX,
    }
}

#[async_trait]
impl BodyStore for ManifestBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        self.bodies.put(body).await
    }

    async fn put_with(&self, body: BodySource<'_>, options: &StorageOptions) -> Result<StoredBody, Error> {
        self.bodies.put_with(body, options).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        if reference.kind != RefKind::Manifest {
            return self.bodies.get(reference).await;
        }
        let mut chunks = self.open_manifest(reference).await?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = results::next_chunk(&mut chunks).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > IN_MEMORY_BYTES_MAX {
                return Err(too_large());
            }
        }
        Ok(bytes.freeze())
    }

    /// A manifest has only an approximate size, so a range is cut from the whole stream.
    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        if reference.kind != RefKind::Manifest {
            return self.bodies.read(reference, range).await;
        }
        let range = range.unwrap_or(0..u64::MAX);
        Ok(BodyStream {
            bytes: reference.meta.bytes,
            chunks: slice_stream(self.open_manifest(reference).await?, range.clone()),
            range,
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.bodies.delete(reference).await
    }
}

/// Cuts a range of bytes from a stream.
fn slice_stream(chunks: ByteStream, range: Range<u64>) -> ByteStream {
    let mut passed = 0;
    let end = range.end;
    let within = chunks.map(move |chunk| {
        chunk.map(|chunk| {
            let chunk_range = passed..passed + chunk.len() as u64;
            passed = chunk_range.end;
            let from = range.start.clamp(chunk_range.start, chunk_range.end) - chunk_range.start;
            let to = range.end.clamp(chunk_range.start, chunk_range.end) - chunk_range.start;
            let index = |position: u64| usize::try_from(position).unwrap_or(chunk.len());
            (chunk_range.start, chunk.slice(index(from)..index(to.max(from))))
        })
    });
    let is_before_end = move |chunk: &std::io::Result<(u64, Bytes)>| {
        future::ready(chunk.as_ref().is_ok_and(|(start, _)| *start < end) || chunk.is_err())
    };
    let overlap = within.take_while(is_before_end);
    Box::pin(overlap.map(|chunk| chunk.map(|(_, bytes)| bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_range_is_sliced_from_a_stream() {
        let text = "0123456789";
        for (range, expected) in [
            (0..u64::MAX, "0123456789"),
            (0..0, ""),
            (2..5, "234"),
            (3..7, "3456"),
            (8..99, "89"),
            (20..30, ""),
        ] {
            let chunks = text.as_bytes().chunks(3);
            let chunks: Vec<_> = chunks.map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            let mut slices = slice_stream(Box::pin(futures_util::stream::iter(chunks)), range.clone());
            let mut slice = Vec::new();
            while let Some(chunk) = slices.next().await {
                slice.extend_from_slice(&chunk.expect("reading from memory does not fail"));
            }
            assert_eq!(String::from_utf8(slice).expect("text"), expected, "{range:?}");
        }
    }
}
