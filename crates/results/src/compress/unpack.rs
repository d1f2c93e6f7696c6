//! Reads a compressed body: the store returns the checked compressed bytes, which are then decompressed.

use std::ops::Range;
use std::path::PathBuf;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use bytes::Bytes;
use model::result_ref::{ResultRef, STORED_SHA256_KEY};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt as _};
use tokio_util::io::{ReaderStream, StreamReader};

use crate::bodies::{body_name, clamp_range};
use crate::files::CHUNK_BYTES;
use crate::storage_options::Codec;
use crate::{BodyStore, BodyStream, Error, sha256};

/// Key of the compressed size in the location of a reference.
pub(super) const STORED_BYTES_KEY: &str = "stored_bytes";

/// A compressed body.
pub(crate) struct CompressedBody {
    codec: Codec,
    /// Reference to the compressed bytes.
    pub(crate) stored_ref: ResultRef,
}

impl CompressedBody {
    /// Returns the compression of a reference, if it has one.
    pub(crate) fn from_ref(reference: &ResultRef) -> Result<Option<Self>, Error> {
        let Some(name) = reference.meta.compression.as_deref() else {
            return Ok(None);
        };
        let mut stored = reference.clone();
        let location = &mut stored.meta.location;
        let hash = location.remove(STORED_SHA256_KEY);
        let bytes = location.remove(STORED_BYTES_KEY);
        let fields = (Codec::from_name(name), hash, bytes.as_ref().and_then(Value::as_u64));
        let (Some(codec), Some(Value::String(hash)), Some(bytes)) = fields else {
            let uri = reference.uri.clone();
            return Err(Error::NotAvailable { uri });
        };
        stored.meta.compression = None;
        stored.meta.sha256 = hash;
        stored.meta.bytes = bytes;
        Ok(Some(Self {
            codec,
            stored_ref: stored,
        }))
    }

    fn corrupt_error(&self) -> Error {
        Error::Corrupt {
            uri: self.stored_ref.uri.clone(),
            file: PathBuf::from(&self.stored_ref.store),
        }
    }
}

fn decompressing_reader(
    codec: Codec,
    reader: impl AsyncBufRead + Send + Unpin + 'static,
) -> Box<dyn AsyncRead + Send + Unpin> {
    match codec {
        Codec::Zstd => Box::new(ZstdDecoder::new(reader)),
        Codec::Gzip => Box::new(GzipDecoder::new(reader)),
    }
}

/// Reads a whole body. Decompresses at most as many bytes as its reference states.
pub(crate) async fn get_decompressed(
    store: &dyn BodyStore,
    packed: &CompressedBody,
    reference: &ResultRef,
) -> Result<Bytes, Error> {
    let expected = body_name(reference)?;
    let stored_bytes = store.get(&packed.stored_ref).await?;
    let bytes = reference.meta.bytes;
    let mut body = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(stored_bytes.len() * 16));
    let mut opened =
        decompressing_reader(packed.codec, std::io::Cursor::new(stored_bytes)).take(bytes.saturating_add(1));
    let read = opened.read_to_end(&mut body).await;
    if read.is_err() || body.len() as u64 != bytes || sha256(&body) != expected {
        return Err(packed.corrupt_error());
    }
    Ok(body.into())
}

/// Reads a body or a range in chunks. The store checks the compressed bytes before the first chunk.
pub(crate) async fn read_decompressed(
    store: &dyn BodyStore,
    packed: &CompressedBody,
    reference: &ResultRef,
    range: Option<Range<u64>>,
) -> Result<BodyStream, Error> {
    body_name(reference)?;
    let bytes = reference.meta.bytes;
    let range = clamp_range(range, bytes);
    let stored_stream = store.read(&packed.stored_ref, None).await?;
    let mut opened = decompressing_reader(packed.codec, StreamReader::new(stored_stream.chunks));
    let mut before = (&mut opened).take(range.start);
    let skipped = tokio::io::copy(&mut before, &mut tokio::io::sink()).await;
    if let Err(error) = skipped {
        // Errors of the store keep their type; any other error means that the body is corrupt.
        return Err(error.downcast().unwrap_or_else(|_| packed.corrupt_error()));
    }
    let range_stream = opened.take(range.end - range.start);
    Ok(BodyStream {
        bytes,
        range,
        chunks: Box::pin(ReaderStream::with_capacity(range_stream, CHUNK_BYTES)),
    })
}
