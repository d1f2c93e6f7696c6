//! `transform`: data to data, by a jq program or by paths, without an interpreter.

mod fuel;
mod jq;
mod select;
mod threads;
mod tool;

pub(crate) use tool::Transform;
