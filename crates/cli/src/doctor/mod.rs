//! Checks of `noetl doctor`: programs, store, isolation and network.

mod check;
mod connectivity;
mod isolation;
mod programs;
mod storage;

pub(crate) use check::{Check, CheckStatus};
pub(crate) use connectivity::{check_port, check_server};
pub(crate) use isolation::check_isolation;
pub(crate) use programs::check_programs;
pub(crate) use storage::{check_contents, check_storage};
