//! The changes between two playbooks.

use model::id::Name;

/// All changes between two playbooks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaybookDifference {
    /// The changes: first those of the whole playbook, then those of its steps, in the order of the new text.
    pub changes: Vec<PlaybookChange>,
    /// Whether these are all changes.
    pub is_complete: bool,
}

/// A change of one value, or of one part with all its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaybookChange {
    /// What changed: `fetch/save_page.command`.
    pub path: String,
    /// The kind of part that changed.
    pub section: PlaybookSection,
    /// How it changed.
    pub kind: ChangeKind,
    /// The step that it belongs to.
    pub step: Option<Name>,
    /// The task that it belongs to.
    pub task: Option<Name>,
    /// The value in the first playbook.
    pub before: Option<ChangedText>,
    /// The value in the second playbook.
    pub after: Option<ChangedText>,
}

/// A value as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedText {
    /// The value; a part with several values has one line for each.
    pub text: String,
    /// The line of its playbook on which it is, or on which the part that contains it begins.
    pub line: u32,
}

/// How a value or a part changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the second playbook has it.
    Added,
    /// Only the first playbook has it.
    Removed,
    /// It has another value.
    Changed,
    /// Its parts are in another order.
    Reordered,
}

/// The kinds of parts of a playbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaybookSection {
    /// `metadata`.
    Metadata,
    /// `executor`.
    Executor,
    /// `keychain`.
    Keychain,
    /// `workload`: the inputs.
    Workload,
    /// `ctx`.
    Ctx,
    /// A step.
    Step,
    /// The admission rules of a step.
    Admission,
    /// The loop of a step.
    Loop,
    /// A task.
    Task,
    /// The policy of a task.
    Policy,
    /// `next` of a step.
    Next,
}
