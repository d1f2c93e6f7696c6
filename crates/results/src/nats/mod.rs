//! Bodies in NATS: small ones in a key-value bucket, others in an object bucket.
//!
//! NATS may be down, restarted or wiped; buckets are created on demand. By default NATS acknowledges before it syncs to
//! disk (unless `sync_interval: always` is set), so use it only for results that can be produced again.

mod connection;
mod kv;
mod object;

pub(crate) use connection::NatsConnection;
pub(crate) use kv::{KV_BYTES_MAX, NatsKvBodyStore};
pub(crate) use object::NatsObjectBodyStore;
