//! Body store that masks secrets before bodies are stored.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use model::time::Time;
use results::{BodyEntry, BodySource, BodyStore, BodyStream, Error, OldBodyQuery, StorageOptions, StoredBody};
use tokio::io::{AsyncRead, ReadBuf};

use crate::secrets::SecretMasker;

/// Number of bytes to read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Stores bodies with their secrets masked.
pub(crate) struct MaskingBodyStore {
    pub(crate) bodies: Arc<dyn BodyStore>,
    pub(crate) masker: Arc<SecretMasker>,
}

impl MaskingBodyStore {
    fn mask_bytes(&self, bytes: &Bytes) -> Bytes {
        let (masked, _) = self.masker.mask_bytes(bytes, bytes.len());
        masked.into()
    }
}

#[async_trait]
impl BodyStore for MaskingBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        match body {
            BodySource::Bytes(bytes) => self.bodies.put(BodySource::Bytes(self.mask_bytes(&bytes))).await,
            BodySource::Stream(text) => {
                let mut masked = MaskingReader::new(text, self.masker.clone());
                self.bodies.put(BodySource::Stream(&mut masked)).await
            }
        }
    }

    async fn put_with(&self, body: BodySource<'_>, options: &StorageOptions) -> Result<StoredBody, Error> {
        match body {
            BodySource::Bytes(bytes) => {
                let masked = BodySource::Bytes(self.mask_bytes(&bytes));
                self.bodies.put_with(masked, options).await
            }
            BodySource::Stream(text) => {
                let mut masked = MaskingReader::new(text, self.masker.clone());
                let masked = BodySource::Stream(&mut masked);
                self.bodies.put_with(masked, options).await
            }
        }
    }

    fn as_stored<'a>(&self, text: &'a mut (dyn AsyncRead + Send + Unpin)) -> Box<dyn AsyncRead + Send + Unpin + 'a> {
        Box::new(MaskingReader::new(text, self.masker.clone()))
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.bodies.get(reference).await
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        self.bodies.read(reference, range).await
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.bodies.delete(reference).await
    }

    async fn stored_before(&self, query: &OldBodyQuery<'_>) -> Result<Vec<BodyEntry>, Error> {
        self.bodies.stored_before(query).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        self.bodies.delete_stored_before(sha256, before).await
    }
}

/// Masks secrets in a stream. It buffers as many bytes as a secret that has started may still need.
struct MaskingReader<'a> {
    text: &'a mut (dyn AsyncRead + Send + Unpin),
    masker: Arc<SecretMasker>,
    /// Bytes that are read and not masked yet.
    unmasked: Vec<u8>,
    /// Bytes that are masked and not returned yet.
    masked: Vec<u8>,
    sent_bytes: usize,
    is_ended: bool,
}

impl<'a> MaskingReader<'a> {
    fn new(text: &'a mut (dyn AsyncRead + Send + Unpin), masker: Arc<SecretMasker>) -> Self {
        Self {
            text,
            masker,
            unmasked: Vec::new(),
            masked: Vec::new(),
            sent_bytes: 0,
            is_ended: false,
        }
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut piece = vec![0; CHUNK_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut *self.text).poll_read(context, &mut buffer))?;
        self.is_ended = buffer.filled().is_empty();
        self.unmasked.extend_from_slice(buffer.filled());
        let overlap = if self.is_ended {
            0
        } else {
            self.masker.longest_bytes() - 1
        };
        let end_max = self.unmasked.len().saturating_sub(overlap);
        let (clean, consumed) = self.masker.mask_bytes(&self.unmasked, end_max);
        self.unmasked.drain(..consumed);
        self.masked = clean;
        self.sent_bytes = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for MaskingReader<'_> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let masked = self.get_mut();
        while masked.sent_bytes == masked.masked.len() && !masked.is_ended {
            ready!(masked.fill(context))?;
        }
        let unsent = &masked.masked[masked.sent_bytes..];
        let part = &unsent[..unsent.len().min(buffer.remaining())];
        buffer.put_slice(part);
        masked.sent_bytes += part.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_secret_split_between_chunks_is_masked() {
        let secret = "canary-of-a-secret";
        let masker = SecretMasker::new(&BTreeSet::from([secret.to_owned()])).unwrap();
        let masker = Arc::new(masker);
        for size in [1, 2, 7, 17, 18, 19, 64] {
            let text = format!("{secret}aa{secret}{secret}b{}", "x".repeat(200));
            let pieces: Vec<io::Result<Bytes>> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let stream = futures_util::stream::iter(pieces);
            let mut reader = tokio_util::io::StreamReader::new(stream);
            let mut masked_reader = MaskingReader::new(&mut reader, masker.clone());
            let mut out = String::new();
            masked_reader.read_to_string(&mut out).await.unwrap();
            assert_eq!(out, format!("***aa******b{}", "x".repeat(200)), "{size}");
        }
    }
}
