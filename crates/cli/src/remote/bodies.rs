//! Bodies kept by a server: a worker without a store of its own puts and gets them through the API.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::unfold;
use model::result_ref::ResultRef;
use results::{Bodies, Error, Source, Stored};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use wire::api::BodyStored;
use wire::{CallError, Client};

/// What is read from a stream at a time.
const CHUNK_BYTES: usize = 256 * 1024;
/// So many chunks wait to be sent.
const CHUNKS_WAITING: usize = 4;
/// What is being read and written, in the words of errors.
const PLACE: &str = "the server's bodies";

/// Puts and gets bodies through a server.
pub(crate) struct ServerBodies {
    client: Client,
}

impl ServerBodies {
    /// Bodies behind this client's servers.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Bodies for ServerBodies {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let stored = match body {
            Source::Bytes(bytes) => self.client.put("/api/bodies", bytes.into()).await,
            Source::Stream(stream) => {
                let (sender, receiver) = mpsc::channel(CHUNKS_WAITING);
                let chunks = unfold(receiver, |mut receiver| async move {
                    let chunk: io::Result<Bytes> = receiver.recv().await?;
                    Some((chunk, receiver))
                });
                let sending = self
                    .client
                    .put("/api/bodies", wire::Upload::wrap_stream(chunks));
                let (stored, read) = tokio::join!(sending, feed(stream, sender));
                read.map_err(Error::Interrupted)?;
                stored
            }
        };
        let stored: BodyStored = stored.map_err(|error| failed(error, PLACE))?;
        Ok(Stored {
            sha256: stored.sha256,
            bytes: stored.bytes,
            store: store_name(&stored.store),
            location: stored.location,
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let bytes = self.client.post_for_bytes("/api/bodies/read", reference);
        let bytes = bytes.await.map_err(|error| failed(error, &reference.uri))?;
        let hash = results::sha256(&bytes);
        if hash == reference.meta.sha256 {
            Ok(bytes)
        } else {
            Err(Error::Corrupt {
                uri: reference.uri.clone(),
                file: PathBuf::from(PLACE),
            })
        }
    }

    /// Only servers know what nothing refers to any more.
    async fn delete(&self, _reference: &ResultRef) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads a stream to its end; a receiver that is gone has told why elsewhere.
async fn feed(
    stream: &mut (dyn AsyncRead + Send + Unpin),
    sender: mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = stream
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut chunk)
            .await;
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

/// The server's name for its store, among those that references know.
fn store_name(name: &str) -> &'static str {
    match name {
        "postgres" => "postgres",
        _ => "file",
    }
}

fn failed(error: CallError, uri: &str) -> Error {
    match error.code() {
        Some("REFERENCE_NOT_AVAILABLE") => Error::NotAvailable {
            uri: uri.to_owned(),
        },
        Some("REFERENCE_CORRUPT") => Error::Corrupt {
            uri: uri.to_owned(),
            file: PathBuf::from(PLACE),
        },
        Some("STORAGE_FULL") => Error::Full {
            file: PathBuf::from(PLACE),
        },
        _ => Error::Unavailable {
            file: PathBuf::from(PLACE),
            source: io::Error::other(error),
        },
    }
}
