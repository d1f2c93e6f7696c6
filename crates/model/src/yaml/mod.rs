//! YAML 1.2 core, read into a tree of our own in which every node knows its place.
//!
//! Enters: bytes from anywhere. Leaves: the documents, or coded errors. Size, depth and alias expansion are bounded
//! before anything recurses, so hostile text costs no more than honest text.

mod align;
mod build;
mod data;
mod document;
mod merge;
mod node;
mod scalar;

pub use data::data;
pub(crate) use document::{Documents, documents};
pub(crate) use merge::overlay;
pub(crate) use node::{Entry, Node, Style, Value};
