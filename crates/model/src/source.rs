//! A document's text, and spans in it.

use std::sync::Arc;

/// The text and the name of a document. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SourceText {
    /// The file's path as it was given, or the catalog path.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// A range in a document: lines and columns count characters from 1; bytes count from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// The line it begins on.
    pub line: u32,
    /// The column it begins at.
    pub column: u32,
    /// The byte offset of its start.
    pub start: u32,
    /// The byte offset after its end.
    pub end: u32,
}
