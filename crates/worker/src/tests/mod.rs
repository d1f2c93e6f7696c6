//! Tests of the worker against a fake server that assigns commands and records reports.

mod fixture;
mod interruptions;
mod pipelines;
mod ranges;
mod secrets;
mod suspending;

pub(crate) use fixture::log_line;
