//! The `nats` tool: keys, objects, streams and messages of a NATS server.

mod connection;
mod failure;
mod kv;
mod object;
mod stream;
mod tool;
mod value;

pub(crate) use connection::{NatsConnections, NatsLogin};
pub(crate) use failure::{error_chain, stream_error};
pub(crate) use tool::NatsTool;
