//! The playbook language: diagnostics of invalid playbooks, accepted spellings, and hostile text.

mod bombs;
mod broken;
mod meaning;
mod spellings;
