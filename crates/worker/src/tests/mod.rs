//! What the worker does, seen from a tiny server that hands out commands and keeps what is reported.

mod house;
mod pipelines;
mod ranges;
mod secrets;
mod suspending;
mod trouble;

pub(crate) use house::log_line;
