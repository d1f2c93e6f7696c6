//! The language of playbooks: YAML, reading and checking documents, templates, diagnostics.
//!
//! Pure: no I/O, clock, randomness or environment.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod diagnostic;
pub mod playbook;
pub mod template;
pub mod yaml;
