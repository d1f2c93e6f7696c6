//! The playbook: a document after all accepted spellings are normalized.

mod check;
pub mod credentials;
mod data;
mod defaults;
mod entry;
mod keychain;
pub mod kinds;
mod parse;
mod policy;
mod read;
mod selection;
mod shape;
mod steps;

pub use data::data;
pub use defaults::{DefaultError, DefaultTemplate, FirstValues, Section};
pub use entry::entry_named;
pub use keychain::{KeychainEntry, KeychainKind, KeychainScope};
pub use kinds::{CodeLanguage, FieldMode};
pub use parse::{Parsed, parse};

pub use policy::{
    Backoff, Directive, Jump, Policy, Retry, Rule, Then, Unmatched, Write, WriteTarget,
};
pub use selection::{InvalidPath, Select, Selection};
pub use shape::{
    Admission, AdmitMode, AdmitRule, Arc, Claim, Collection, Effect, Executor, FailureMode, Loop,
    LoopMode, Playbook, ResultControl, RouteMode, Router, Step, Task,
};
pub use steps::Steps;
