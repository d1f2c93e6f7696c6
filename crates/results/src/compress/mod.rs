//! Compression before any store: what is stored is a body of its own, under its own hash.
//!
//! A reference's `sha256` and `bytes` are the task's; `stored_sha256` and `stored_bytes` beside them are what the store
//! holds. So every store checks what it holds as it always does, and none knows of compression.

mod choose;
mod pack;
mod unpack;

pub(crate) use choose::choose;
pub(crate) use pack::put;
pub(crate) use unpack::{Packed, get, read};
