//! The `mcp` tool: one request to a Model Context Protocol server, over HTTP or the pipes of a program.

mod http;
mod message;
mod method_call;
mod result;
mod stdio;
mod tool;

pub(crate) use tool::McpTool;
