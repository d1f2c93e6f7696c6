//! `rhai`: a script in a sandbox. It sees its inputs and nothing else; its time, operations and memory are limited.

mod script;
mod tool;

pub(crate) use script::run_script;
pub(crate) use tool::Rhai;
