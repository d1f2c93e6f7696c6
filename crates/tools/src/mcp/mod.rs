//! `mcp`: one request to a server of the Model Context Protocol, over HTTP or over the pipes of a program.

mod asked;
mod http;
mod message;
mod result;
mod stdio;
mod tool;

pub(crate) use tool::Mcp;
