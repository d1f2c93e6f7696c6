//! Parses YAML 1.2 (core schema) into a tree whose nodes have their position in the text.
//!
//! Input: untrusted bytes. Output: documents or diagnostics. Size, depth and alias expansion are limited before
//! anything recurses, so malicious text costs no more than valid text.

mod align;
mod build;
mod data;
mod document;
mod merge;
mod node;
mod scalar;

pub use data::parse_yaml_data;
pub(crate) use document::{YamlDocuments, parse_documents};
pub(crate) use merge::overlay;
pub(crate) use node::{MapEntry, Node, NodeValue, ScalarQuoting};
pub(crate) use scalar::is_plain_text;
