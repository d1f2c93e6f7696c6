//! The `python` tool: runs user code in interpreters that stay warm between calls.

mod answer;
mod code;
mod environments;
mod facts;
mod libs;
mod place;
mod pool;
mod process;
pub(crate) mod request;
mod shut_in;
mod tool;
mod version;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub use code::python_code;
pub(crate) use tool::Python;
