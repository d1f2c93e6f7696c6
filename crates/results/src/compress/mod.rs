//! Compression in front of any store: the compressed bytes are stored as a body with their own hash.
//!
//! `sha256` and `bytes` of a reference describe the original body; `stored_sha256` and `stored_bytes` in its location
//! describe the compressed one. Each store checks the bytes that it stores and needs no support for compression.

mod choose;
mod pack;
mod unpack;

pub(crate) use choose::choose_codec;
pub(crate) use pack::put_compressed;
pub(crate) use unpack::{CompressedBody, get_decompressed, read_decompressed};
