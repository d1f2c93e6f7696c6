//! The `nats` tool: keys, objects, streams and messages of a NATS server.

mod connection;
mod failure;
mod kv;
mod object;
mod stream;
mod tool;
mod value;

pub(crate) use connection::{Connections, Login};
pub(crate) use failure::{no_stream, told};
pub(crate) use tool::Nats;
