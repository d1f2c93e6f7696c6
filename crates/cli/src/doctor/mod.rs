//! Checks of `noetl doctor`: programs, store, isolation and network.

mod check;
mod isolation;
mod programs;
mod reach;
mod storage;

pub(crate) use check::{Check, State};
pub(crate) use isolation::isolation;
pub(crate) use programs::programs;
pub(crate) use reach::{port, server};
pub(crate) use storage::{contents, storage};
