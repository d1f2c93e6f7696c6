//! A document's text, and places in it.

use std::sync::Arc;

/// The text of a document and the name people know it by. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file's path as it was given, or the catalog path.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// A place in a document: lines and columns count from 1, in characters; bytes from 0.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Span {
    /// The line it begins on.
    pub line: u32,
    /// The column it begins at.
    pub column: u32,
    /// The byte it begins at.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}
