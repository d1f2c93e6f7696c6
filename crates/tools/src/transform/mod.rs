//! `transform`: data to data, by a jq program or by paths, without an interpreter.

mod fuel;
mod jq;
mod select;
mod tool;

pub(crate) use jq::run_jq;
pub(crate) use tool::Transform;
