//! Compresses a body while it is stored.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::Level;
use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt as _, BufReader, ReadBuf};

use model::result_ref::STORED_SHA256_KEY;

use super::unpack::STORED_BYTES_KEY;
use crate::storage_options::Codec;
use crate::{BodySource, BodyStore, Error, StoredBody, sha256};

/// Number of bytes to compress at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// Reader of compressed bytes.
pub(super) type Encoder<'a> = Box<dyn AsyncRead + Send + Unpin + 'a>;

/// Compresses the bytes of a reader.
pub(super) fn compressing_reader<'a>(codec: Codec, reader: impl AsyncBufRead + Send + Unpin + 'a) -> Encoder<'a> {
    match codec {
        Codec::Zstd => Box::new(ZstdEncoder::with_quality(reader, Level::Fastest)),
        Codec::Gzip => Box::new(GzipEncoder::new(reader)),
    }
}

/// Stores a body compressed.
pub(crate) async fn put_compressed(
    store: &dyn BodyStore,
    codec: Codec,
    body: BodySource<'_>,
) -> Result<StoredBody, Error> {
    match body {
        BodySource::Bytes(bytes) => {
            let packed = compress_bytes(codec, &bytes).await?;
            let stored = store.put(BodySource::Bytes(packed)).await?;
            Ok(with_compression(stored, codec, sha256(&bytes), bytes.len() as u64))
        }
        BodySource::Stream(reader) => put_compressed_stream(store, codec, reader).await,
    }
}

async fn compress_bytes(codec: Codec, bytes: &[u8]) -> Result<Bytes, Error> {
    let mut packed = Vec::new();
    let mut packing = compressing_reader(codec, bytes);
    loop {
        let mut block = (&mut packing).take(BLOCK_BYTES as u64);
        let read = block.read_to_end(&mut packed).await;
        if read.map_err(Error::Interrupted)? == 0 {
            return Ok(packed.into());
        }
        // Yields, so that a large body does not block other tasks of the thread.
        tokio::task::yield_now().await;
    }
}

async fn put_compressed_stream(
    store: &dyn BodyStore,
    codec: Codec,
    reader: &mut (dyn AsyncRead + Send + Unpin),
) -> Result<StoredBody, Error> {
    let mut hashing = HashingReader {
        reader,
        hash: Sha256::new(),
        bytes: 0,
    };
    let blocks = BufReader::with_capacity(BLOCK_BYTES, &mut hashing);
    let mut packed = compressing_reader(codec, blocks);
    let stored = store.put(BodySource::Stream(&mut *packed)).await?;
    drop(packed);
    let sha256 = hex::encode(hashing.hash.finalize());
    Ok(with_compression(stored, codec, sha256, hashing.bytes))
}

/// Describes the original body and adds hash and size of the compressed one.
fn with_compression(mut stored: StoredBody, codec: Codec, sha256: String, bytes: u64) -> StoredBody {
    let stored_hash = std::mem::replace(&mut stored.sha256, sha256);
    stored.location.insert(STORED_SHA256_KEY.to_owned(), stored_hash.into());
    let stored_hash = std::mem::replace(&mut stored.bytes, bytes);
    stored.location.insert(STORED_BYTES_KEY.to_owned(), stored_hash.into());
    stored.compression = Some(codec.name());
    stored
}

/// Hashes a body while it is read.
struct HashingReader<'a> {
    reader: &'a mut (dyn AsyncRead + Send + Unpin),
    hash: Sha256,
    bytes: u64,
}

impl AsyncRead for HashingReader<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let hashing = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *hashing.reader).poll_read(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        hashing.hash.update(bytes);
        hashing.bytes += bytes.len() as u64;
        Poll::Ready(Ok(()))
    }
}
