//! Task policies: rules that choose an action for an outcome.

use model::id::Name;
use model::playbook::{Backoff, Directive};
use model::source::Span;

use crate::template::{Template, Tree};

/// What happens after a task's outcome. Without rules, success continues and failure fails.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Evaluated in order; the first match decides. May be empty.
    pub rules: Vec<PolicyRule>,
    /// What happens when there are rules and none matches.
    pub unmatched: UnmatchedAction,
}

/// What happens when no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnmatchedAction {
    /// Continue, even after an error.
    #[default]
    Continue,
    /// Fail the pipeline if the outcome is an error, otherwise continue.
    Fail,
}

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct PolicyRule {
    /// The condition; `None` for `else`.
    pub when: Option<Template>,
    /// The action.
    pub action: RuleAction,
    /// Its position in the playbook.
    pub span: Span,
}

/// The action of a rule.
#[derive(Debug, Clone)]
pub struct RuleAction {
    /// The kind of action (`do`).
    pub directive: Directive,
    /// Settings for `do: retry`.
    pub retry: RetryRule,
    /// The target of `do: jump`.
    pub to: Option<JumpTarget>,
    /// Values to write.
    pub writes: Vec<SetEntry>,
}

/// The target of `do: jump`.
#[derive(Debug, Clone)]
pub enum JumpTarget {
    /// A label of the same pipeline.
    Label(Name),
    /// The task before this one.
    Previous,
    /// The label that the template renders to.
    Template(Template),
}

/// Retry settings. Each value may be a template.
#[derive(Debug, Clone, Default)]
pub struct RetryRule {
    /// The total number of attempts. Default: 3.
    pub attempts: Option<Tree>,
    /// How the delay grows.
    pub backoff: Backoff,
    /// Seconds (or duration text) before the next attempt. Default: 1 s.
    pub delay: Option<Tree>,
}

/// One write: `set_iter`, `set_ctx` or an entry of `set`.
#[derive(Debug, Clone)]
pub struct SetEntry {
    /// The scope that is written.
    pub target: WriteTarget,
    /// The key.
    pub key: Name,
    /// The value.
    pub value: Tree,
    /// Its position in the playbook.
    pub span: Span,
}

/// The scope that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteTarget {
    /// The iteration.
    Iter,
    /// The execution.
    Ctx,
    /// The pipeline.
    Local,
}
