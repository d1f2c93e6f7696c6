//! The promise every store of bodies keeps.

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::AsyncRead;

use crate::error::Error;

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
    /// What that store needs to find it.
    pub location: Map<String, Value>,
}

/// A store of bodies. Bodies are immutable and found by their content, so storing one twice stores it once.
#[async_trait]
pub trait Bodies: Send + Sync {
    /// Stores a body; when this returns it survives power loss.
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error>;

    /// Reads a body and checks its hash.
    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error>;

    /// Removes a body; one that is not there is no error. The caller knows that nothing refers to it any more.
    async fn delete(&self, reference: &ResultRef) -> Result<(), Error>;
}
