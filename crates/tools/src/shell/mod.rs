//! The `shell` tool: runs commands in a shell; values are quoted by context.

mod quoting;
mod script;
mod tool;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub(crate) use tool::ShellTool;
