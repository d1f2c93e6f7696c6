//! The `nats` tool: keys, objects, streams and messages of a NATS server.

mod buckets;
mod connection;
mod failure;
mod kv;
mod object;
mod stream;
mod tool;
mod value;

pub(crate) use buckets::ConnectedNatsBuckets;
pub(crate) use connection::NatsConnections;
pub(crate) use tool::NatsTool;
