//! Converts a YAML document to a playbook and collects all errors.
//!
//! Each file reads one part of the document; `reader` has the shared state. All accepted spellings are normalized to
//! `playbook::shape`. Nothing is ignored silently: unknown keys are reported.

pub(crate) mod admission;
mod cursor;
mod defaults;
pub(crate) mod executor;
pub(crate) mod key_tables;
mod keychain;
mod layers;
pub(crate) mod looping;
mod metadata;
pub(crate) mod next;
mod placement;
mod programs;
mod reader;
pub(crate) mod result;
pub(crate) mod root;
pub(crate) mod rules;
mod similar;
pub(crate) mod step;
pub(crate) mod task;
mod template_uses;
mod tool;
mod values;
mod workbook;
mod writes;

pub(crate) use reader::PlaybookReader;
pub(crate) use root::{PlaybookDraft, read_playbook};
pub(crate) use template_uses::{TemplateSite, TemplateUse};
