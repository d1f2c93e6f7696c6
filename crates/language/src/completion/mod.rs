//! Completion and hover texts for editors: what can be written at a position of a playbook, and what a word means.
//!
//! Enters: a text, which may be broken because its author is typing, and a position. Leaves: completions or a
//! description. Both are pure and linear in the text; a language server and the web client share them.

mod complete;
mod document;
mod expected_value;
mod flow;
mod hover;
mod locate;
mod outline;
mod templates;

pub use complete::{COMPLETIONS_MAX, Completion, CompletionKind, CompletionList, ExternalNames, complete};
pub use hover::{Hover, hover};
pub use locate::Position;
