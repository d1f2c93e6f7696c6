//! Body store behind a server's API. Uploads and downloads use constant memory.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use futures_util::stream::unfold;
use model::result_ref::ResultRef;
use results::{BodySource, BodyStore, BodyStream, Error, StoredBody};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use wire::api::StoreBodyResponse;
use wire::{Client, Download};

use super::store_error::into_store_error;

/// Number of bytes to read from a stream at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of chunks that wait to be sent.
const CHUNKS_QUEUED_MAX: usize = 4;
/// Maximum number of attempts to continue an interrupted download without receiving a byte.
const ATTEMPTS_MAX: u32 = 3;
/// Name of the store in errors.
const BODIES_LOCATION: &str = "the server's result store";

const PUT_PATH: &str = "/api/bodies";
const READ_PATH: &str = "/api/bodies/read";

/// Stores and reads bodies through a server.
pub struct HttpBodyStore {
    client: Client,
}

impl HttpBodyStore {
    /// Creates a store that uses the servers of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl BodyStore for HttpBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let stored = match body {
            BodySource::Bytes(bytes) => self.client.put_bytes(PUT_PATH, &bytes).await,
            BodySource::Stream(stream) => {
                let (sender, receiver) = mpsc::channel(CHUNKS_QUEUED_MAX);
                let chunks = unfold(receiver, |mut receiver| async move {
                    let chunk: io::Result<Bytes> = receiver.recv().await?;
                    Some((chunk, receiver))
                });
                let sending = self.client.put(PUT_PATH, wire::Upload::wrap_stream(chunks));
                let (stored, read) = tokio::join!(sending, send_chunks(stream, sender));
                read.map_err(Error::Interrupted)?;
                stored
            }
        };
        let stored: StoreBodyResponse =
            stored.map_err(|error| into_store_error(error, BODIES_LOCATION, BODIES_LOCATION))?;
        Ok(StoredBody {
            sha256: stored.sha256,
            bytes: stored.bytes,
            store: store_name(&stored.store),
            compression: None,
            location: stored.location,
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let body = self.read(reference, None).await?;
        let chunks: BytesMut = body
            .chunks
            .try_collect()
            .await
            .map_err(|error| match error.downcast::<Error>() {
                Ok(error) => error,
                Err(error) => Error::Interrupted(error),
            })?;
        Ok(chunks.freeze())
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let bytes = reference.meta.bytes;
        let requested = range.map(|range| {
            let start = range.start.min(bytes);
            start..range.end.clamp(start, bytes)
        });
        if let Some(range) = requested.clone().filter(Range::is_empty) {
            // An HTTP range request cannot express an empty range.
            let chunks = Box::pin(futures_util::stream::empty());
            return Ok(BodyStream { bytes, range, chunks });
        }
        let download = self.client.download(READ_PATH, reference, requested.clone()).await;
        let download = download.map_err(|error| into_store_error(error, &reference.uri, BODIES_LOCATION))?;
        let (bytes, range) = (download.bytes, download.range.clone());
        let download = BodyDownload {
            client: self.client.clone(),
            reference: reference.clone(),
            remaining: range.clone(),
            download: Some(download),
            hash: requested.is_none().then(Sha256::new),
            remaining_attempts: ATTEMPTS_MAX,
        };
        Ok(BodyStream {
            bytes,
            range,
            chunks: Box::pin(unfold(download, BodyDownload::next_chunk)),
        })
    }

    /// Does nothing: only servers know which bodies are still referenced.
    async fn delete(&self, _reference: &ResultRef) -> Result<(), Error> {
        Ok(())
    }
}

/// The remaining bytes of a body; if a download is interrupted, it continues from the next server.
struct BodyDownload {
    client: Client,
    reference: ResultRef,
    remaining: Range<u64>,
    download: Option<Download>,
    /// Hash of the bytes so far, if the whole body is read.
    hash: Option<Sha256>,
    remaining_attempts: u32,
}

impl BodyDownload {
    async fn next_chunk(mut self) -> Option<(io::Result<Bytes>, Self)> {
        while !self.remaining.is_empty() {
            match self.read_chunk().await {
                Ok(chunk) => {
                    self.remaining_attempts = ATTEMPTS_MAX;
                    return Some((Ok(chunk), self));
                }
                Err(error) if error.is_retryable() && self.remaining_attempts > 1 => {
                    self.remaining_attempts -= 1;
                    self.download = None;
                }
                Err(error) => {
                    self.remaining = 0..0;
                    self.hash = None;
                    return Some((Err(io::Error::other(error)), self));
                }
            }
        }
        let sha256 = hex::encode(self.hash.take()?.finalize());
        if sha256 == self.reference.meta.sha256.to_ascii_lowercase() {
            return None;
        }
        let corrupt = Error::Corrupt {
            uri: self.reference.uri.clone(),
            file: PathBuf::from(BODIES_LOCATION),
        };
        Some((Err(io::Error::other(corrupt)), self))
    }

    async fn read_chunk(&mut self) -> Result<Bytes, Error> {
        let uri = &self.reference.uri;
        if self.download.is_none() {
            let remaining = Some(self.remaining.clone());
            let response = self.client.download(READ_PATH, &self.reference, remaining).await;
            self.download = Some(response.map_err(|error| into_store_error(error, uri, BODIES_LOCATION))?);
        }
        let download = self.download.as_mut().expect("the download was just started");
        let chunk = download.next_chunk().await;
        let chunk = chunk.map_err(|error| into_store_error(error, uri, BODIES_LOCATION))?;
        let chunk = chunk.filter(|chunk| chunk.len() as u64 <= self.remaining.end - self.remaining.start);
        let Some(chunk) = chunk else {
            let early = io::ErrorKind::UnexpectedEof;
            return Err(Error::Interrupted(early.into()));
        };
        if let Some(hash) = &mut self.hash {
            hash.update(&chunk);
        }
        self.remaining.start += chunk.len() as u64;
        Ok(chunk)
    }
}

/// Reads a stream to its end. If the receiver is closed, the upload reports the error.
async fn send_chunks(
    stream: &mut (dyn AsyncRead + Send + Unpin),
    sender: mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = stream.take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await;
        if let Err(error) = read {
            let copy = io::Error::new(error.kind(), error.to_string());
            let _ = sender.send(Err(copy)).await;
            return Err(error);
        }
        if chunk.is_empty() || sender.send(Ok(chunk.into())).await.is_err() {
            return Ok(());
        }
    }
}

/// Maps the server's store name to a static name.
fn store_name(name: &str) -> &'static str {
    match name {
        "postgres" => "postgres",
        _ => "disk",
    }
}
