//! The promise every store of bodies keeps.

use std::io;
use std::ops::Range;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, stream};
use model::result_ref::ResultRef;
use model::time::Time;
use serde_json::{Map, Value};
use tokio::io::AsyncRead;

use crate::error::Error;
use crate::wish::{Kind, Wish};

/// A body on its way into a store.
pub enum Source<'a> {
    /// All of it. A full disk refuses it: whoever holds it can store it again.
    Bytes(Bytes),
    /// To be read to its end, never held in memory whole. A full disk makes it wait: it cannot be read again.
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

    /// How to configure a store that tasks may name and that is not configured; none where it is.
    fn missing(&self, _kind: Kind) -> Option<&'static str> {
        None
    }

    /// Stores a body where and how its task wishes; a store that has one place and one way uses those.
    async fn put_as(&self, body: Source<'_>, _wish: &Wish) -> Result<Stored, Error> {
        self.put(body).await
    }

    /// A text as it would be stored here. Whoever looks at it on its way must look at this.
    fn sieve<'a>(
        &self,
        text: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> Box<dyn AsyncRead + Send + Unpin + 'a> {
        Box::new(text)
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

    /// At most `limit` bodies that were stored last before a time and come after a hash, in the order of their hashes. A
    /// store that cannot tell knows of none, so nothing of it is collected.
    async fn stored_before(
        &self,
        _before: Time,
        _after: Option<&str>,
        _limit: usize,
    ) -> Result<Vec<Old>, Error> {
        Ok(Vec::new())
    }

    /// Removes a body unless it was stored again since `before`; whether it is gone. Storing and removing exclude each
    /// other, so a body that was just stored is never removed.
    async fn delete_stored_before(&self, _sha256: &str, _before: Time) -> Result<bool, Error> {
        Ok(false)
    }
}

/// A body that was not stored again for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Old {
    /// The sha256 of its bytes, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// A body as a value: JSON where its reference says so, else text.
pub fn value(reference: &ResultRef, bytes: &[u8]) -> Value {
    let json = match reference.meta.content_type.as_str() {
        "application/json" => serde_json::from_slice(bytes).ok(),
        _ => None,
    };
    json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
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
