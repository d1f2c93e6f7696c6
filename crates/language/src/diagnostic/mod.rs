//! Diagnostics: errors and warnings of a document, with their position and a remedy.
//!
//! Every diagnostic has a code from one table, the source of `noetl explain` and of the error reference.

mod codes;
mod render;
mod report;

pub use codes::{CODES, DiagnosticCode, find_code};
pub use render::DiagnosticStyle;
pub use report::{Diagnostic, Severity};
