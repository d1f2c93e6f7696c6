//! Compression in front of any store: the compressed bytes are stored as a body with their own hash.
//!
//! `sha256` and `bytes` of a reference describe the original body; `stored_sha256` and `stored_bytes` in its location
//! describe the compressed one. Each store checks the bytes that it stores and needs no support for compression.

mod choose;
mod pack;
mod unpack;

pub(crate) use choose::choose;
pub(crate) use pack::put;
pub(crate) use unpack::{Packed, get, read};
