//! Bodies in a bucket of S3 or Google Cloud Storage, under the name of their hash.
//!
//! A key is written once it is known, which is when the whole body is: what streams in waits aside. What comes out is
//! checked before it is handed on.

mod bucket;
mod fault;
mod open;
mod store;
mod upload;

pub use bucket::{Bucket, BucketError, Found, Listed, Opened};
pub(crate) use store::Objects;
