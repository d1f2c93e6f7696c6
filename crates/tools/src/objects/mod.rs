//! The `s3` and `gcs` tools: objects in buckets by URI; for local tests also files in a directory.
//!
//! Input: an action, a URI, a credential. Output: the response of the bucket. Objects are streamed, not loaded.

mod address;
mod credential;
mod files;
mod get;
mod put;
mod tool;

pub use address::{ObjectAccess, ObjectAddress, ObjectLocation};
pub use files::check_allowed;
pub use get::open_object;
pub use put::{ObjectContent, put_content};
pub(crate) use tool::{ObjectsTool, run_action};
