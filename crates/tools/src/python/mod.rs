//! The `python` tool: runs user code in interpreters that stay warm between calls.

mod code;
mod context;
mod environments;
mod facts;
mod libs;
mod pool;
mod process;
mod request;
mod runner_answer;
mod sandboxed;
mod tool;
mod version;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub use code::python_code;
pub(crate) use tool::PythonTool;
