//! Reading: from a YAML document to a playbook, by hand, collecting every error.
//!
//! Each file reads one part of the document; `reader` holds what they share. Every accepted spelling ends in the one
//! shape of `playbook::shape`, and nothing is ignored: what is not known is reported.

mod admission;
mod cursor;
mod defaults;
mod executor;
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
mod shapes;
mod similar;
mod step;
mod task;
mod tool;
mod uses;
mod values;
mod workbook;
mod writes;

pub(crate) use reader::Reader;
pub(crate) use root::{Draft, read};
pub(crate) use uses::{Place, Use};
