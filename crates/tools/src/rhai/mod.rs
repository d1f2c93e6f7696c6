//! The `rhai` tool: runs a script in a sandbox. It sees only its inputs; its time, operations and memory are limited.

mod context;
#[cfg(test)]
mod corpus;
mod program;
mod script;
mod tool;

pub use program::rhai_script;
pub(crate) use script::run_script;
pub(crate) use tool::RhaiTool;
