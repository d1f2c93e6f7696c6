//! The parts of a playbook: steps, tasks, loops, arcs.

use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{Name, PlaybookHash};
use model::playbook::{FailureMode, LoopMode, ResultControl, RouteMode};
use model::source::{SourceText, Span};
use serde_json::{Map, Value};

use crate::playbook::defaults::DefaultTemplate;
use crate::playbook::keychain::KeychainEntry;
use crate::playbook::kinds::{EXTERNAL, KindSpec, find_kind};
use crate::playbook::policy::{Policy, SetEntry};
use crate::playbook::steps::Steps;
use crate::template::{Template, Tree};

/// A parsed and checked document.
#[derive(Debug, Clone)]
pub struct Playbook {
    /// The name.
    pub name: Name,
    /// The path in the catalog. Default: the name.
    pub path: Name,
    /// The version its author wrote.
    pub version: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// The other keys of `metadata`.
    pub metadata: Map<String, Value>,
    /// Run-wide settings.
    pub executor: Executor,
    /// Secrets that must be available before a run starts, in order.
    pub keychain: Vec<KeychainEntry>,
    /// Default inputs, as written.
    pub workload: Map<String, Value>,
    /// Initial values of `ctx`, as written.
    pub ctx: Map<String, Value>,
    /// The templates of both, in rendering order.
    pub default_templates: Vec<DefaultTemplate>,
    /// The steps in YAML order.
    pub steps: Steps,
    /// The text it was parsed from, for errors that point into it.
    pub source: SourceText,
    /// The sha256 of that text.
    pub hash: PlaybookHash,
}

impl Playbook {
    /// Finds a step by name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.find(name)
    }

    /// The pool whose workers run a step: that of its tasks, or of the playbook.
    pub fn pool<'a>(&'a self, step: &'a Step) -> &'a Name {
        let own = step.tasks.iter().find_map(|task| task.pool.as_ref());
        own.unwrap_or(&self.executor.pool)
    }

    /// The step where a run starts.
    pub fn entry(&self) -> &Step {
        let by_name = self
            .executor
            .entry_step
            .as_ref()
            .and_then(|name| self.step(name.as_str()));
        by_name.unwrap_or_else(|| self.steps.first().expect("a checked playbook has a step"))
    }
}

/// Run-wide settings.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The default pool of workers.
    pub pool: Name,
    /// The step to start with. Default: the first step.
    pub entry_step: Option<Name>,
    /// The step that runs last, once per generation.
    pub final_step: Option<Name>,
    /// Whether the run fails if no arc of a step matches.
    pub no_next_is_error: bool,
    /// Whether an unhandled failure stops the rest of the run.
    pub failure: FailureMode,
    /// The maximum inline payload of a task.
    pub payload_bytes_max: Option<u64>,
    /// The maximum number of runs of one step. Default: the server's limit.
    pub step_runs_max: Option<u32>,
}

/// A step of the workflow.
#[derive(Debug, Clone)]
pub struct Step {
    /// Unique in the playbook.
    pub name: Name,
    /// A description.
    pub desc: Option<String>,
    /// The admission rules.
    pub admission: Admission,
    /// Whether tokens that arrive together start a single run.
    pub is_joining: bool,
    /// The maximum duration of a step run.
    pub timeout: Option<Duration>,
    /// The maximum time that its commands wait for a worker.
    pub schedule_to_start: Option<Duration>,
    /// Whether a failed iteration stops the loop.
    pub failure: FailureMode,
    /// The loop that runs the pipeline for each item.
    pub loop_: Option<Loop>,
    /// Values that every task can read as `input`.
    pub input: Option<Tree>,
    /// The pipeline; empty for a routing step.
    pub tasks: Vec<Task>,
    /// Written to `ctx` at the end of the step.
    pub set: Vec<SetEntry>,
    /// The arcs to the next steps.
    pub next: Router,
    /// Its position in the playbook.
    pub span: Span,
}

impl Task {
    /// The properties of its kind. Kinds of a deployment have none of their own.
    pub fn kind_spec(&self) -> &'static KindSpec {
        find_kind(self.kind.as_str()).unwrap_or(&EXTERNAL)
    }
}

impl Step {
    /// Returns how a cursor loop claims its rows; `None` for other steps.
    pub fn cursor_claim(&self) -> Option<&CursorClaim> {
        match &self.loop_.as_ref()?.collection {
            Collection::Cursor(claim) => Some(claim),
            Collection::In(_) => None,
        }
    }

    /// Returns all tasks of this step: the task that claims rows, and the pipeline.
    pub fn all_tasks(&self) -> impl Iterator<Item = &Task> {
        let claim = self.cursor_claim().into_iter();
        claim.flat_map(|claim| &claim.step.tasks).chain(&self.tasks)
    }

    /// Finds a task by label, with its index in the pipeline.
    pub fn task(&self, label: &str) -> Option<(usize, &Task)> {
        self.tasks.iter().enumerate().find(|(_, task)| task.label == *label)
    }
}

/// The admission rules of a step. Without rules, every token is admitted.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// Whether the first matching rule decides, or all matching rules.
    pub mode: AdmitMode,
    /// The rules in order.
    pub rules: Vec<AdmitRule>,
}

/// How admission rules combine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdmitMode {
    /// The first matching rule decides.
    #[default]
    Exclusive,
    /// All matching rules must allow.
    Inclusive,
}

/// One admission rule.
#[derive(Debug, Clone)]
pub struct AdmitRule {
    /// The condition; `None` for `else`.
    pub when: Option<Template>,
    /// Whether the token is admitted.
    pub allow: bool,
    /// Its position in the playbook.
    pub span: Span,
}

/// A step's loop.
#[derive(Debug, Clone)]
pub struct Loop {
    /// The items.
    pub collection: Collection,
    /// The name of an item in templates.
    pub iterator: Name,
    /// Sequential or parallel.
    pub mode: LoopMode,
    /// The maximum number of iterations at once; may be a template.
    pub max_in_flight: Option<Tree>,
    /// Whether one worker runs the whole loop.
    pub is_local: bool,
    /// Its position in the playbook.
    pub span: Span,
}

/// The items of a loop.
#[derive(Debug, Clone)]
pub enum Collection {
    /// A literal or rendered list.
    In(Tree),
    /// Rows, claimed frame by frame until none are left.
    Cursor(Box<CursorClaim>),
}

/// How a cursor loop claims its rows.
#[derive(Debug, Clone)]
pub struct CursorClaim {
    /// A step with one task, which claims a frame of rows each time it runs.
    pub step: Step,
    /// A template for the rows in that task's result.
    pub rows: Tree,
    /// A template for the number of rows it changed.
    pub affected: Tree,
}

/// A task: one entry of a pipeline.
#[derive(Debug, Clone)]
pub struct Task {
    /// Unique in its step.
    pub label: Name,
    /// The tool kind.
    pub kind: Name,
    /// The kind's own keys, spelled canonically.
    pub fields: BTreeMap<String, Tree>,
    /// `input` (or `args`): values for the tool.
    pub input: Option<Tree>,
    /// Settings that tools read: `retry`, `pool`, `sandbox`, `resources`, `isolate` …
    pub knobs: BTreeMap<String, Tree>,
    /// The maximum duration of one attempt; may be a template, or a map of `connect` and `read`.
    pub timeout: Option<Tree>,
    /// The rules for its outcome.
    pub policy: Policy,
    /// Values written after the outcome, before those of the rules.
    pub set: Vec<SetEntry>,
    /// How its result is stored.
    pub result: ResultControl,
    /// How many times its side effect may happen.
    pub effect: Effect,
    /// The pool of workers, if not the executor's.
    pub pool: Option<Name>,
    /// The line of the playbook on which its `code` starts, for tracebacks.
    pub code_line: Option<u32>,
    /// The lines of the playbook on which the texts of its `command` start.
    pub command_lines: Vec<u32>,
    /// Its position in the playbook.
    pub span: Span,
}

/// How many times a task's side effect may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// At least once; the idempotency key is stable.
    #[default]
    AtLeastOnce,
    /// At most once: an unknown outcome is a failure and is never retried.
    AtMostOnce,
    /// Exactly once, by a marker in the same database transaction.
    Transactional,
}

/// The arcs of a step.
#[derive(Debug, Clone, Default)]
pub struct Router {
    /// Whether one or all matching arcs are followed.
    pub mode: RouteMode,
    /// The arcs in order.
    pub arcs: Vec<NetArc>,
    /// Whether the run fails if no arc matches. Default: the executor's `no_next_is_error`.
    pub no_match_is_error: Option<bool>,
}

/// An arc to another step.
#[derive(Debug, Clone)]
pub struct NetArc {
    /// The target step.
    pub step: Name,
    /// The condition; `None` always matches.
    pub when: Option<Template>,
    /// The arguments it passes on.
    pub args: Option<Tree>,
    /// Written to `ctx` when the arc is followed.
    pub set: Vec<SetEntry>,
    /// Its position in the playbook.
    pub span: Span,
}
