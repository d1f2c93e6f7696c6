//! `s3` and `gcs`: objects in buckets by their addresses, and the same of files in a folder, to try a playbook at home.
//!
//! Enters: an action, an address, a credential. Leaves: what the bucket says. Bodies pass through, they are not held.

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
