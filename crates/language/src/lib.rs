//! The language of playbooks: YAML, reading and checking documents, templates, diagnostics.
//!
//! Pure: no I/O, clock, randomness or environment.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod completion;
pub mod diagnostic;
pub mod playbook;
pub mod reference;
pub mod template;
pub mod yaml;
