//! Tests of the worker against a fake server that assigns commands and records reports.

mod house;
mod pipelines;
mod ranges;
mod secrets;
mod suspending;
mod trouble;

pub(crate) use house::log_line;
