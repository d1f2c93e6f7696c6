//! The promise every store of bodies keeps.

use std::io;
use std::ops::Range;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, stream};
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::AsyncRead;

use crate::error::Error;
use crate::wish::Wish;

/// A body on its way into a store.
pub enum Source<'a> {
    /// All of it.
    Bytes(Bytes),
    /// To be read to its end, never held in memory whole.
    Stream(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// A body that is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The sha256 of its bytes, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// The kind of store that holds it.
    pub store: &'static str,
    /// How it is compressed there, if it is.
    pub compression: Option<&'static str>,
    /// What that store needs to find it.
    pub location: Map<String, Value>,
}

/// Pieces of a body, in order. An error means that the rest cannot be had now.
pub type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A body on its way out of a store, never held in memory whole.
pub struct Reading {
    /// The size of the whole body.
    pub bytes: u64,
    /// What of it is read.
    pub range: Range<u64>,
    /// What is read.
    pub pieces: Pieces,
}

/// A store of bodies. Bodies are immutable and found by their content, so storing one twice stores it once.
#[async_trait]
pub trait Bodies: Send + Sync {
    /// Stores a body; when this returns it survives power loss.
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error>;

    /// Stores a body where and how its task wishes; a store that has one place and one way uses those.
    async fn put_as(&self, body: Source<'_>, _wish: &Wish) -> Result<Stored, Error> {
        self.put(body).await
    }

    /// Reads a body and checks its hash.
    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error>;

    /// Reads a body, or as much of it as lies in the range, piece by piece. What is handed out was checked.
    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        let body = self.get(reference).await?;
        let bytes = body.len() as u64;
        let range = within(range, bytes);
        let piece = body.slice(index(range.start)..index(range.end));
        Ok(Reading {
            bytes,
            range,
            pieces: Box::pin(stream::iter([Ok(piece)])),
        })
    }

    /// Removes a body; one that is not there is no error. The caller knows that nothing refers to it any more.
    async fn delete(&self, reference: &ResultRef) -> Result<(), Error>;
}

/// As much of a range as a body of this size has.
pub(crate) fn within(range: Option<Range<u64>>, bytes: u64) -> Range<u64> {
    let Some(range) = range else {
        return 0..bytes;
    };
    let start = range.start.min(bytes);
    start..range.end.clamp(start, bytes)
}

fn index(place: u64) -> usize {
    usize::try_from(place).expect("a body in memory has as many bytes as memory can")
}

/// The name of a body in hex, as stores spell it.
pub(crate) fn address(reference: &ResultRef) -> Result<String, Error> {
    hash(reference).map(hex::encode)
}

/// The name of a body: its sha256, of which there may be none in a reference from outside.
pub(crate) fn hash(reference: &ResultRef) -> Result<[u8; 32], Error> {
    let mut hash = [0; 32];
    let decoded = hex::decode_to_slice(&reference.meta.sha256, &mut hash);
    let not_there = |_| Error::NotAvailable {
        uri: reference.uri.clone(),
    };
    decoded.map(|()| hash).map_err(not_there)
}
