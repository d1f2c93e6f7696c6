//! The `transform` tool: transforms data with a jq program or with paths.

mod context;
#[cfg(test)]
mod corpus;
mod fuel;
mod jq;
mod program;
mod select;
mod tool;

pub(crate) use jq::run_jq;
pub use program::jq_program;
pub(crate) use tool::TransformTool;
