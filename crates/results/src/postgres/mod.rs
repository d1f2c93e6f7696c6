//! What several servers share in the store's database: bodies in pieces.
//!
//! Each statement is whole in itself and harmless the second time, so a lost connection is answered by another try.

mod bodies;
mod draft;
mod head;
mod pool;

pub use bodies::Postgres;
pub use pool::{Connect, ConnectError};
