//! The parts of a playbook: steps, tasks, loops, routers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{Name, PlaybookHash};
use crate::manifest::Accumulate;
use crate::playbook::defaults::DefaultTemplate;
use crate::playbook::keychain::KeychainEntry;
use crate::playbook::policy::{Policy, Write};
use crate::playbook::selection::Select;
use crate::playbook::steps::Steps;
use crate::result_ref::Scope;
use crate::source::{Source, Span};
use crate::template::{Template, Tree};

/// A document, read and checked.
#[derive(Debug, Clone)]
pub struct Playbook {
    /// What people call it.
    pub name: Name,
    /// Its place in the catalog; the name unless said.
    pub path: Name,
    /// The version its author wrote.
    pub version: Option<String>,
    /// Prose.
    pub description: Option<String>,
    /// The rest of `metadata`, as data.
    pub metadata: Map<String, Value>,
    /// Run-wide settings.
    pub executor: Executor,
    /// What a run must be able to open, in order.
    pub keychain: Vec<KeychainEntry>,
    /// Default inputs, as written.
    pub workload: Map<String, Value>,
    /// First values of `ctx`, as written.
    pub ctx: Map<String, Value>,
    /// The templates among those, in the order in which they are rendered.
    pub default_templates: Vec<DefaultTemplate>,
    /// The steps in YAML order.
    pub steps: Steps,
    /// The text it was read from, for errors that point into it.
    pub source: Source,
    /// The sha256 of that text.
    pub hash: PlaybookHash,
}

impl Playbook {
    /// The step of that name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.find(name)
    }

    /// Where the entry token stands.
    pub fn entry(&self) -> &Step {
        let named = self
            .executor
            .entry_step
            .as_ref()
            .and_then(|name| self.step(name.as_str()));
        named.unwrap_or_else(|| self.steps.first().expect("a checked playbook has a step"))
    }
}

/// Run-wide settings.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Which workers take the work unless a task says otherwise.
    pub pool: Name,
    /// Where to begin; the first step unless said.
    pub entry_step: Option<Name>,
    /// What runs last, once per generation.
    pub final_step: Option<Name>,
    /// Whether a step whose arcs all decline fails the run.
    pub no_next_is_error: bool,
    /// What an unhandled failure means for the rest of the run.
    pub failure: FailureMode,
    /// The largest inline payload a task may produce.
    pub payload_bytes_max: Option<u64>,
    /// How often one step may run; the server's limit unless said.
    pub step_runs_max: Option<u32>,
}

/// One transition of the net.
#[derive(Debug, Clone)]
pub struct Step {
    /// Unique in the playbook.
    pub name: Name,
    /// Prose.
    pub desc: Option<String>,
    /// Who may enter.
    pub admission: Admission,
    /// Whether tokens that meet run it once together.
    pub joins: bool,
    /// How long a run of it may take.
    pub timeout: Option<Duration>,
    /// How long its commands may wait for a worker.
    pub schedule_to_start: Option<Duration>,
    /// What a failed iteration means for the loop.
    pub failure: FailureMode,
    /// Run the pipeline for each element.
    pub loop_: Option<Loop>,
    /// Values offered to every task as `input`.
    pub input: Option<Tree>,
    /// The pipeline; empty for a routing step.
    pub tasks: Vec<Task>,
    /// Written to `ctx` at the boundary.
    pub set: Vec<Write>,
    /// Where tokens go next.
    pub next: Router,
    /// Where it stands.
    pub span: Span,
}

impl Step {
    /// The pipeline that claims the rows of its loop, if that is a cursor loop.
    pub fn claim(&self) -> Option<&Claim> {
        match &self.loop_.as_ref()?.over {
            Collection::Cursor(claim) => Some(claim),
            Collection::In(_) => None,
        }
    }

    /// Every task that runs for this step: that which claims its rows, and its pipeline.
    pub fn all_tasks(&self) -> impl Iterator<Item = &Task> {
        let claim = self.claim().into_iter();
        claim.flat_map(|claim| &claim.step.tasks).chain(&self.tasks)
    }

    /// The task with that label, and its place in the pipeline.
    pub fn task(&self, label: &str) -> Option<(usize, &Task)> {
        self.tasks
            .iter()
            .enumerate()
            .find(|(_, task)| task.label == *label)
    }
}

/// What an unhandled failure does to its siblings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// Stop the rest.
    FailFast,
    /// Let the rest finish.
    #[default]
    BestEffort,
}

/// Who may enter a step. Without rules, everyone.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// Whether one rule decides or all that match.
    pub mode: AdmitMode,
    /// In order.
    pub rules: Vec<AdmitRule>,
}

/// How admission rules combine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdmitMode {
    /// The first that matches decides.
    #[default]
    Exclusive,
    /// Every one that matches must allow.
    Inclusive,
}

/// One admission rule.
#[derive(Debug, Clone)]
pub struct AdmitRule {
    /// The condition; none for `else`.
    pub when: Option<Template>,
    /// The answer.
    pub allow: bool,
    /// Where it stands.
    pub span: Span,
}

/// A step's loop.
#[derive(Debug, Clone)]
pub struct Loop {
    /// What to run over.
    pub over: Collection,
    /// What each element is called.
    pub iterator: Name,
    /// One after the other, or several at once.
    pub mode: LoopMode,
    /// How many at once; may be a template.
    pub max_in_flight: Option<Tree>,
    /// Whether one worker takes the whole loop.
    pub local: bool,
    /// Where it stands.
    pub span: Span,
}

/// What a loop runs over.
#[derive(Debug, Clone)]
pub enum Collection {
    /// A list, given or rendered.
    In(Tree),
    /// Rows, claimed frame by frame until there are no more.
    Cursor(Box<Claim>),
}

/// How a cursor loop comes by its rows.
#[derive(Debug, Clone)]
pub struct Claim {
    /// A pipeline of one task, which claims a frame each time it runs.
    pub step: Step,
    /// The rows in that task's result.
    pub rows: Tree,
    /// How many rows it changed.
    pub affected: Tree,
}

/// How a loop runs its iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopMode {
    /// One after the other.
    #[default]
    Sequential,
    /// Several at once.
    Parallel,
}

/// One entry of a pipeline.
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
    /// Runtime knobs that tools read: `retry`, `pool`, `sandbox`, `resources`, `isolate` …
    pub knobs: BTreeMap<String, Tree>,
    /// How long one attempt may take; may be a template, or a map of `connect` and `read`.
    pub timeout: Option<Tree>,
    /// What follows its outcome.
    pub policy: Policy,
    /// Written after the outcome, before the rules' own writes.
    pub set: Vec<Write>,
    /// What happens to its result.
    pub result: ResultControl,
    /// How often its effect may happen.
    pub effect: Effect,
    /// Which workers take it, if not the executor's pool.
    pub pool: Option<Name>,
    /// The line on which the first line of its `code` stands, for tracebacks.
    pub code_line: Option<u32>,
    /// The line on which the first line of each text of its `command` stands.
    pub command_lines: Vec<u32>,
    /// Where it stands.
    pub span: Span,
}

/// How often a task's effect may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// At least once; the idempotency key is stable.
    #[default]
    AtLeastOnce,
    /// At most once: an unknown outcome is a failure, never a second try.
    AtMostOnce,
    /// Exactly once, by a marker in the same database transaction.
    Transactional,
}

/// What happens to a task's result: `task.spec.result`.
#[derive(Debug, Clone, Default)]
pub struct ResultControl {
    /// The largest body kept inline.
    pub inline_bytes_max: Option<u64>,
    /// The largest preview.
    pub preview_bytes_max: Option<u64>,
    /// The store asked for, if any.
    pub store: Option<Name>,
    /// How long the body is kept.
    pub scope: Option<Scope>,
    /// A shorter life.
    pub ttl: Option<Duration>,
    /// Values to lift out.
    pub select: Vec<Select>,
    /// Whether a path that finds nothing is tried inside the result's `data` too: so for HTTP responses.
    pub selects_in_data: bool,
    /// How the body is compressed, if its author cares.
    pub compression: Option<Name>,
    /// Whether the parts of several visits are collected.
    pub accumulate: Option<Accumulate>,
}

impl ResultControl {
    /// This over `base`: what this does not say is taken from there.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            inline_bytes_max: self.inline_bytes_max.or(base.inline_bytes_max),
            preview_bytes_max: self.preview_bytes_max.or(base.preview_bytes_max),
            store: self.store.or(base.store),
            scope: self.scope.or(base.scope),
            ttl: self.ttl.or(base.ttl),
            select: if self.select.is_empty() {
                base.select
            } else {
                self.select
            },
            selects_in_data: self.selects_in_data,
            compression: self.compression.or(base.compression),
            accumulate: self.accumulate.or(base.accumulate),
        }
    }
}

/// Where tokens go when a step ends.
#[derive(Debug, Clone, Default)]
pub struct Router {
    /// How many arcs may fire.
    pub mode: RouteMode,
    /// In order.
    pub arcs: Vec<Arc>,
    /// Whether it fails the run that no arc fires; the executor's `no_next_is_error` unless said.
    pub no_match_is_error: Option<bool>,
}

/// How many arcs of a router may fire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteMode {
    /// The first whose guard holds.
    #[default]
    Exclusive,
    /// Every one whose guard holds.
    Inclusive,
}

/// One arc of a router.
#[derive(Debug, Clone)]
pub struct Arc {
    /// Where it leads.
    pub step: Name,
    /// Whether it may fire; always, if none.
    pub when: Option<Template>,
    /// The token's payload.
    pub args: Option<Tree>,
    /// Written to `ctx` when it fires.
    pub set: Vec<Write>,
    /// Where it stands.
    pub span: Span,
}
