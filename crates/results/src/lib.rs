//! Result bodies: kept inline in the log while small, behind a `ResultRef` once they are not.
//!
//! [`keep`] decides and cuts; a [`Bodies`] store holds what does not stay. A reference is handed out only after its
//! body is durable, and a body is handed out only after its hash was checked.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod extract;
mod keep;
mod local;

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::AsyncRead;

pub use error::Error;
pub use extract::{extract, preview};
pub use keep::{Kept, Limits, Place, keep};
pub use local::Local;

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
