//! A diagnostic and its JSON form for editors and scripts.

use model::source::{SourceText, Span};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::diagnostic::codes::find_code;

/// An error, warning or note about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the document is still usable.
    pub severity: Severity,
    /// Its code in [`CODES`](crate::diagnostic::CODES).
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The position in the document.
    pub span: Span,
    /// The document.
    pub source: SourceText,
    /// Text next to the underline; if empty, the line is not shown.
    pub label: String,
    /// What to do, one entry per line.
    pub help: Vec<String>,
}

/// Whether a document is usable in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document is usable, but probably does not do what its author expects.
    Warning,
    /// The document is usable and does what its author expects.
    Note,
}

impl Diagnostic {
    /// Creates a diagnostic. Codes that begin with `W` are warnings, codes that begin with `N` notes.
    pub fn new(code: &'static str, message: impl Into<String>, span: Span, source: &SourceText) -> Self {
        debug_assert!(find_code(code).is_some(), "{code} must be in the table of codes");
        let severity = match code.as_bytes().first() {
            Some(b'W') => Severity::Warning,
            Some(b'N') => Severity::Note,
            _ => Severity::Error,
        };
        Self {
            severity,
            code,
            message: message.into(),
            span,
            source: source.clone(),
            label: String::new(),
            help: Vec::new(),
        }
    }

    /// Adds a text next to the underline.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a line of help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Whether it makes the document unusable.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether the document probably does not do what its author expects.
    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Diagnostic", 8)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("code", self.code)?;
        fields.serialize_field("message", &self.message)?;
        fields.serialize_field("file", &*self.source.name)?;
        fields.serialize_field("line", &self.span.line)?;
        fields.serialize_field("column", &self.span.column)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("help", &self.help)?;
        fields.end()
    }
}
