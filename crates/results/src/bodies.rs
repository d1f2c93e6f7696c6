//! The interface of body stores.

use std::io;
use std::ops::Range;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, stream};
use model::result_ref::{BodyMeta, BodyScope, RefKind, ResultRef};
use model::time::Time;
use serde_json::{Map, Value};
use tokio::io::AsyncRead;

use crate::error::Error;
use crate::storage_options::{StorageOptions, StoreKind};

/// A body to store.
pub enum BodySource<'a> {
    /// All bytes. A full disk is an error: the caller can store the bytes again.
    Bytes(Bytes),
    /// A stream that is read to its end and never held in memory as a whole. A full disk pauses it, because it cannot
    /// be read again.
    Stream(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// A durable body.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBody {
    /// SHA-256 of the bytes, in hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Name of the store.
    pub store: &'static str,
    /// Compression, if any.
    pub compression: Option<&'static str>,
    /// Data that the store needs to find the body.
    pub location: Map<String, Value>,
}

impl StoredBody {
    /// Builds the reference to a JSON body, without extracted fields and preview.
    pub fn into_reference(self, uri: String, scope: BodyScope) -> ResultRef {
        ResultRef {
            kind: RefKind::Result,
            uri,
            store: self.store.to_owned(),
            scope,
            expires_at: None,
            meta: BodyMeta {
                content_type: "application/json".to_owned(),
                bytes: self.bytes,
                sha256: self.sha256,
                compression: self.compression.map(str::to_owned),
                location: self.location,
            },
            extracted: Map::new(),
            keys: Vec::new(),
            preview: None,
        }
    }
}

/// Chunks of a body, in order. After an error, the following chunks are unavailable.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A body that is read in chunks.
pub struct BodyStream {
    /// Size of the whole body.
    pub bytes: u64,
    /// Range that is read.
    pub range: Range<u64>,
    /// Chunks of the range.
    pub chunks: ByteStream,
}

/// A store of bodies. Bodies are immutable and addressed by their hash, so storing one twice stores it once.
#[async_trait]
pub trait BodyStore: Send + Sync {
    /// Stores a body; it is durable when this returns.
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error>;

    /// Returns how to configure a store that tasks may name; `None` if it is configured.
    fn configuration_remedy(&self, _kind: StoreKind) -> Option<&'static str> {
        None
    }

    /// Stores a body with the options of its task; a store without options ignores them.
    async fn put_with(&self, body: BodySource<'_>, _options: &StorageOptions) -> Result<StoredBody, Error> {
        self.put(body).await
    }

    /// Returns the text as this store will store it. Code that inspects text before it is stored must inspect this
    /// text.
    fn as_stored<'a>(&self, text: &'a mut (dyn AsyncRead + Send + Unpin)) -> Box<dyn AsyncRead + Send + Unpin + 'a> {
        Box::new(text)
    }

    /// Reads a body and checks its hash.
    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error>;

    /// Reads a body or a range of it in chunks. All returned bytes were checked.
    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let body = self.get(reference).await?;
        let bytes = body.len() as u64;
        let range = clamp_range(range, bytes);
        let chunk = body.slice(to_index(range.start)..to_index(range.end));
        Ok(BodyStream {
            bytes,
            range,
            chunks: Box::pin(stream::iter([Ok(chunk)])),
        })
    }

    /// Deletes a body; a missing body is not an error. The caller ensures that nothing refers to it any more.
    async fn delete(&self, reference: &ResultRef) -> Result<(), Error>;

    /// Returns bodies that were last stored before a time, sorted by hash. A store that does not support this returns
    /// none, so none of its bodies are collected.
    async fn stored_before(&self, _query: &OldBodyQuery<'_>) -> Result<Vec<BodyEntry>, Error> {
        Ok(Vec::new())
    }

    /// Deletes a body unless it was stored again since `before`; returns whether it was deleted. Storing and deleting
    /// exclude each other, so a body that was just stored is never deleted.
    async fn delete_stored_before(&self, _sha256: &str, _before: Time) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Which old bodies to list.
#[derive(Debug, Clone, Copy)]
pub struct OldBodyQuery<'a> {
    /// They were last stored before this time.
    pub before: Time,
    /// Their hashes follow this one.
    pub after: Option<&'a str>,
    /// Maximum number of bodies.
    pub limit: usize,
}

/// A body that was not stored again since a given time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyEntry {
    /// SHA-256 of the bytes, in hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Decodes a body: JSON if its reference says so, otherwise text.
pub fn decode_body(reference: &ResultRef, bytes: &[u8]) -> Value {
    let json = match reference.meta.content_type.as_str() {
        "application/json" => serde_json::from_slice(bytes).ok(),
        _ => None,
    };
    json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// Clamps a range to the size of a body.
pub(crate) fn clamp_range(range: Option<Range<u64>>, bytes: u64) -> Range<u64> {
    let Some(range) = range else {
        return 0..bytes;
    };
    let start = range.start.min(bytes);
    start..range.end.clamp(start, bytes)
}

fn to_index(offset: u64) -> usize {
    usize::try_from(offset).expect("the size of a body in memory fits into `usize`")
}

/// Returns the hash of a reference in lowercase hex.
pub(crate) fn body_name(reference: &ResultRef) -> Result<String, Error> {
    body_hash(reference).map(hex::encode)
}

/// Returns the hash of a reference; a reference from outside may have an invalid one.
pub(crate) fn body_hash(reference: &ResultRef) -> Result<[u8; 32], Error> {
    let mut hash = [0; 32];
    let decoded = hex::decode_to_slice(&reference.meta.sha256, &mut hash);
    let not_available = |_| Error::NotAvailable {
        uri: reference.uri.clone(),
    };
    decoded.map(|()| hash).map_err(not_available)
}
