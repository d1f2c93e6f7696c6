//! The `s3` and `gcs` tools: objects in buckets by URI; for local tests also files in a directory.
//!
//! Input: an action, a URI, a credential. Output: the response of the bucket. Objects are streamed, not loaded.

mod address;
mod credential;
mod files;
mod get;
mod put;
mod tool;

pub(crate) use address::{Address, Place, Reach};
pub(crate) use files::allowed;
pub(crate) use get::open;
pub(crate) use put::{Content, put};
pub(crate) use tool::{Objects, act};
