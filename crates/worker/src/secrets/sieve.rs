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
use results::{Bodies, Error, Old, Reading, Source, Stored, Wish};
use tokio::io::{AsyncRead, ReadBuf};

use crate::secrets::Masks;

/// Number of bytes to read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Stores bodies with their secrets masked.
pub(crate) struct MaskedBodies {
    pub(crate) bodies: Arc<dyn Bodies>,
    pub(crate) masks: Arc<Masks>,
}

impl MaskedBodies {
    fn bytes(&self, bytes: &Bytes) -> Bytes {
        let (masked, _) = self.masks.pass(bytes, bytes.len());
        masked.into()
    }
}

#[async_trait]
impl Bodies for MaskedBodies {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        match body {
            Source::Bytes(bytes) => self.bodies.put(Source::Bytes(self.bytes(&bytes))).await,
            Source::Stream(text) => {
                let mut masked = Masked::new(text, self.masks.clone());
                self.bodies.put(Source::Stream(&mut masked)).await
            }
        }
    }

    async fn put_as(&self, body: Source<'_>, wish: &Wish) -> Result<Stored, Error> {
        match body {
            Source::Bytes(bytes) => {
                let masked = Source::Bytes(self.bytes(&bytes));
                self.bodies.put_as(masked, wish).await
            }
            Source::Stream(text) => {
                let mut masked = Masked::new(text, self.masks.clone());
                let masked = Source::Stream(&mut masked);
                self.bodies.put_as(masked, wish).await
            }
        }
    }

    fn sieve<'a>(
        &self,
        text: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> Box<dyn AsyncRead + Send + Unpin + 'a> {
        Box::new(Masked::new(text, self.masks.clone()))
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.bodies.get(reference).await
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        self.bodies.read(reference, range).await
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.bodies.delete(reference).await
    }

    async fn stored_before(
        &self,
        before: Time,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Old>, Error> {
        self.bodies.stored_before(before, after, limit).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        self.bodies.delete_stored_before(sha256, before).await
    }
}

/// Masks secrets in a stream. It buffers as many bytes as a secret that has started may still need.
struct Masked<'a> {
    text: &'a mut (dyn AsyncRead + Send + Unpin),
    masks: Arc<Masks>,
    /// Bytes that are read and not masked yet.
    raw: Vec<u8>,
    /// Bytes that are masked and not returned yet.
    clean: Vec<u8>,
    passed: usize,
    is_over: bool,
}

impl<'a> Masked<'a> {
    fn new(text: &'a mut (dyn AsyncRead + Send + Unpin), masks: Arc<Masks>) -> Self {
        Self {
            text,
            masks,
            raw: Vec::new(),
            clean: Vec::new(),
            passed: 0,
            is_over: false,
        }
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut *self.text).poll_read(context, &mut buffer))?;
        self.is_over = buffer.filled().is_empty();
        self.raw.extend_from_slice(buffer.filled());
        let held = if self.is_over {
            0
        } else {
            self.masks.longest() - 1
        };
        let cut = self.raw.len().saturating_sub(held);
        let (clean, taken) = self.masks.pass(&self.raw, cut);
        self.raw.drain(..taken);
        self.clean = clean;
        self.passed = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Masked<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let masked = self.get_mut();
        while masked.passed == masked.clean.len() && !masked.is_over {
            ready!(masked.fill(context))?;
        }
        let left = &masked.clean[masked.passed..];
        let part = &left[..left.len().min(buffer.remaining())];
        buffer.put_slice(part);
        masked.passed += part.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_secret_cut_by_pieces_is_masked_all_the_same() {
        let secret = "canary-of-a-secret";
        let masks = Masks::of(&BTreeSet::from([secret.to_owned()])).unwrap();
        let masks = Arc::new(masks);
        for size in [1, 2, 7, 17, 18, 19, 64] {
            let text = format!("{secret}aa{secret}{secret}b{}", "x".repeat(200));
            let pieces: Vec<io::Result<Bytes>> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let stream = futures_util::stream::iter(pieces);
            let mut reader = tokio_util::io::StreamReader::new(stream);
            let mut masked = Masked::new(&mut reader, masks.clone());
            let mut out = String::new();
            masked.read_to_string(&mut out).await.unwrap();
            assert_eq!(out, format!("***aa******b{}", "x".repeat(200)), "{size}");
        }
    }
}
