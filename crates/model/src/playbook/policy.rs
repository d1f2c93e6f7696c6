//! Task policy: which rule an outcome matches, and what the rule says.

use serde::{Deserialize, Serialize};

use crate::id::Name;
use crate::source::Span;
use crate::template::{Template, Tree};

/// What follows a task's outcome. Without rules success continues and failure fails.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Looked at in order; the first that matches decides. Empty where none were given.
    pub rules: Vec<Rule>,
    /// What follows when rules exist and none matches.
    pub unmatched: Unmatched,
}

/// What follows when no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// Go on, even after an error.
    #[default]
    Continue,
    /// Fail the pipeline if the outcome is an error, else go on.
    Fail,
}

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The condition; none for `else`.
    pub when: Option<Template>,
    /// What to do.
    pub then: Then,
    /// Where it stands.
    pub span: Span,
}

/// What a rule says.
#[derive(Debug, Clone)]
pub struct Then {
    /// Where the pipeline goes.
    pub directive: Directive,
    /// How to try again, for `do: retry`.
    pub retry: Retry,
    /// Where to jump, for `do: jump`.
    pub to: Option<Jump>,
    /// What to write.
    pub writes: Vec<Write>,
}

/// Where `do: jump` goes.
#[derive(Debug, Clone)]
pub enum Jump {
    /// To a label of the same pipeline.
    Label(Name),
    /// To the task just before this one.
    Previous,
    /// To whatever label the template gives.
    Template(Template),
}

/// How to try again. Each value may be a template.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// How many tries in all; 3 if not said.
    pub attempts: Option<Tree>,
    /// How the delay grows.
    pub backoff: Backoff,
    /// Seconds (or duration text) before the next try; 1 s if not said.
    pub delay: Option<Tree>,
}

/// Where a pipeline goes after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Directive {
    /// To the next task.
    Continue,
    /// To the same task, one attempt further.
    Retry,
    /// To another task.
    Jump,
    /// Out, successfully.
    Break,
    /// Out, as a failure.
    Fail,
}

/// How a retry's delay grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// Not at all.
    #[default]
    None,
    /// By the delay each time.
    Linear,
    /// Doubling each time.
    Exponential,
}

/// One write: `set_iter`, `set_ctx` or an entry of `set`.
#[derive(Debug, Clone)]
pub struct Write {
    /// What is written.
    pub target: WriteTarget,
    /// The key.
    pub key: Name,
    /// The value.
    pub value: Tree,
    /// Where it stands.
    pub span: Span,
}

/// Where a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteTarget {
    /// The iteration.
    Iter,
    /// The execution.
    Ctx,
    /// The pipeline.
    Local,
}
