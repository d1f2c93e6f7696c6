//! The playbook: a document after all accepted spellings are normalized.

mod catalog_id;
mod check;
pub mod credential_types;
pub mod credentials;
mod data;
mod defaults;
mod definition;
mod difference;
mod inputs;
mod keychain;
pub mod kinds;
mod parse;
mod policy;
pub(crate) mod read;
mod shared_playbooks;
mod steps;
pub(crate) mod words;

pub use catalog_id::parse_catalog_id;
pub use data::parse_data;
pub use defaults::{DefaultError, DefaultTemplate, FirstValues, Section};
pub use difference::{
    ChangeKind, ChangedText, DiffLine, LineOrigin, PlaybookChange, PlaybookDifference, PlaybookSection,
    compare_playbooks, diff_lines,
};
pub use inputs::{InputField, InputKind, describe_inputs};
pub use keychain::{KeychainEntry, KeychainKind, KeychainScope};
pub use kinds::{CodeLanguage, FieldMode};
pub use parse::{DraftResult, ParseResult, parse, parse_draft};

pub use definition::{
    Admission, AdmitMode, AdmitRule, Collection, CursorClaim, Effect, Executor, Loop, NetArc, Playbook, Router, Step,
    Task,
};
pub use policy::{JumpTarget, Policy, PolicyRule, RetryRule, RuleAction, SetEntry, UnmatchedAction, WriteTarget};
pub use shared_playbooks::SharedPlaybooks;
pub use steps::Steps;
