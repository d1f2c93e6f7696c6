//! `transform`: data to data, by a jq program or by paths, without an interpreter.

mod fuel;
mod jq;
mod process;
mod select;
mod threads;
mod tool;

pub use process::{JQ_PROCESS_ARGUMENT, serve_jq};
pub(crate) use tool::Transform;
