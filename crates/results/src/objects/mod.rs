//! Bodies in a bucket of S3 or Google Cloud Storage, named by their hash.
//!
//! The key is known only when the whole body is, so streams are staged first. Bodies are checked before they are
//! returned.

mod bucket;
mod error;
mod open;
mod store;
mod upload;

pub use bucket::{Bucket, BucketError, ObjectPage, ObjectStream, ObjectSummary};
pub(crate) use store::BucketBodyStore;
