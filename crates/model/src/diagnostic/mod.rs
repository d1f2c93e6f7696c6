//! Diagnostics: what is wrong with a document, where, and what to do about it.
//!
//! Every one has a code from one table, from which `noetl explain` and the reference of errors are made.

mod codes;
mod render;
mod report;

pub use codes::{CODES, Code, explain};
pub use render::Style;
pub use report::{Diagnostic, Severity};
