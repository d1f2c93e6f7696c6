//! One diagnostic: its parts, and how it is sent to editors and scripts.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::diagnostic::codes::explain;
use crate::source::{Source, Span};

/// Something about a document that its author should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the document can be used in spite of it.
    pub severity: Severity,
    /// Its code in [`CODES`](crate::diagnostic::CODES).
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// Where.
    pub span: Span,
    /// In which document.
    pub source: Source,
    /// What stands beside the underline; without it the line is not shown.
    pub label: String,
    /// What to do, a line each.
    pub help: Vec<String>,
}

/// Whether a document can be used in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but probably does something else than its author thinks.
    Warning,
    /// It can, and does what its author thinks.
    Note,
}

impl Diagnostic {
    /// A diagnostic with that code; codes that begin with `W` are warnings, those with `N` notes.
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        source: &Source,
    ) -> Self {
        debug_assert!(explain(code).is_some(), "{code} is in the table of codes");
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

    /// With a text beside the underline.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With one more line of help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Whether it makes the document unusable.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether the document probably does something else than its author thinks.
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
