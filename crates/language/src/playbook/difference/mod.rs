//! The difference between two versions of a playbook: what a run would do differently, not how the text differs.
//!
//! Input: two checked playbooks. Output: changes, each with its path, both values and their lines. Both playbooks are
//! first broken down into parts with values; comments, layout, key order and accepted spellings do not appear there.

mod change;
mod compare;
mod key_index;
mod line_diff;
mod outline;
mod value;

#[cfg(test)]
mod tests;

pub use change::{ChangeKind, ChangedText, PlaybookChange, PlaybookDifference, PlaybookSection};
pub use compare::compare_playbooks;
pub use line_diff::{DiffLine, LineOrigin, diff_lines};
