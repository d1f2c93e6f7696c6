//! Converts a YAML document to a playbook and collects all errors.
//!
//! Each file reads one part of the document; `reader` has the shared state. All accepted spellings are normalized to
//! `playbook::shape`. Nothing is ignored silently: unknown keys are reported.

mod admission;
mod cursor;
mod defaults;
mod executor;
mod key_tables;
mod keychain;
mod layers;
mod looping;
mod metadata;
mod next;
mod placement;
mod programs;
mod reader;
mod result;
mod root;
mod rules;
mod similar;
mod step;
mod task;
mod template_uses;
mod tool;
mod values;
mod workbook;
mod writes;

pub(crate) use reader::PlaybookReader;
pub(crate) use root::{PlaybookDraft, read_playbook};
pub(crate) use template_uses::{TemplateSite, TemplateUse};
