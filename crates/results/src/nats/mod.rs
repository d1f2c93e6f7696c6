//! Bodies in NATS: small ones in a key-value bucket, others in an object bucket.
//!
//! NATS may be away, restarted or wiped; buckets are made when they are needed. It acknowledges before it flushes unless
//! it is told otherwise (`sync_interval: always`), so it holds what can be made again.

mod connection;
mod kv;
mod object;

pub(crate) use connection::Connection;
pub(crate) use kv::{KV_BYTES_MAX, Kv};
pub(crate) use object::NatsObjects;
