//! The shape of the state: an execution, its tokens, runs, commands and timers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::event::{Ending, Parent, ResultPointer, ReusedIterations, TimerPurpose};
use model::id::{ExecutionId, Name, PlaybookHash, Seq, StepRunId, TokenId};
use model::outcome::TaskError;
use model::raw::Raw;
use model::status::RunStatus;
use model::template::Latest;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::state::{LiveCommand, Run, SharedMap, StateIndex};

/// What an execution has come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The execution.
    pub execution: ExecutionId,
    /// The last event folded.
    pub seq: Seq,
    /// Which life of the execution this is, from 1.
    pub generation: u32,
    /// Whether it lives.
    pub phase: Phase,
    /// Whether nothing may be offered.
    pub paused: bool,
    /// Why everything is being stopped, if it is.
    pub stop: Option<Stop>,
    /// Where the playbook is known.
    pub path: Name,
    /// Its catalog version.
    pub version: u32,
    /// Its text.
    pub hash: PlaybookHash,
    /// The merged inputs.
    pub workload: Raw,
    /// Who started it.
    pub parent: Option<Parent>,
    /// How deep in a tree of sub-playbooks.
    pub depth: u32,
    /// The trace it belongs to, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Name>,
    /// Mutable state.
    pub ctx: Arc<Map<String, Value>>,
    /// The length of its JSON text.
    pub ctx_bytes: usize,
    /// The last event that changed it.
    pub ctx_seq: Seq,
    /// Tokens that wait at a step or are parked before it.
    pub tokens: SharedMap<TokenId, Token>,
    /// Step runs that are live or held.
    pub runs: SharedMap<StepRunId, Run>,
    /// What is known of each step that has run.
    pub steps: SharedMap<Name, StepSummary>,
    /// Commands on offer or held by a worker.
    pub commands: SharedMap<Seq, LiveCommand>,
    /// Timers that run.
    pub timers: SharedMap<Seq, LiveTimer>,
    /// Signals nobody has taken, oldest first.
    pub signals: BTreeMap<Name, VecDeque<Seq>>,
    /// The step whose boundary came last.
    pub last_boundary: Option<ResultPointer>,
    /// The boundary of a step called `end`, which names the run's result.
    pub end_boundary: Option<ResultPointer>,
    /// The first failure nothing handled.
    pub error: Option<TaskError>,
    /// Whether `final_step` was given its turn in this generation.
    pub final_ran: bool,
    /// Iterations that the next run of a loop takes over, and the event that says so.
    #[serde(default)]
    pub reusing: BTreeMap<Name, (Seq, ReusedIterations)>,
    /// Lookups for decisions; follows from the rest.
    #[serde(skip)]
    pub(crate) index: Arc<StateIndex>,
}

/// Whether an execution lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It lives.
    Live,
    /// It has ended.
    Ended(Ending),
}

/// Everything is being stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// The event that asked for it.
    pub since: Seq,
    /// Whether children that are waited for live on.
    #[serde(default)]
    pub spares_children: bool,
    /// What whoever asked for it said.
    #[serde(default)]
    pub note: Option<String>,
}

/// Why everything is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Someone cancelled it.
    Cancelled,
    /// A failure that ends the whole run.
    Failed,
    /// Someone ended it, and said how.
    Finalized(Ending),
}

/// A token at a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Where it stands.
    pub step: Name,
    /// Its payload.
    pub args: Option<Raw>,
    /// The boundary event of the step it came from, if it came from one.
    pub boundary: Option<Boundary>,
    /// Whether admission turned it away for now.
    pub parked: bool,
}

/// The boundary that a token came from, as admission sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boundary {
    /// The event.
    pub seq: Seq,
    /// The step it ended.
    pub step: Name,
    /// How.
    pub end: BoundaryKind,
    /// When.
    pub timestamp: Time,
}

/// How a step run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundaryKind {
    /// `step.done`.
    Done,
    /// `step.failed`.
    Failed,
    /// `loop.done`.
    LoopDone,
}

/// What is known of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSummary {
    /// How often it was scheduled.
    pub runs: u32,
    /// Its latest end.
    pub latest: Option<Latest>,
}

/// A timer that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveTimer {
    /// What it is for.
    pub purpose: TimerPurpose,
    /// When it fires.
    pub due: Time,
    /// The step run it belongs to.
    pub run: Option<StepRunId>,
    /// The iteration it belongs to.
    pub iteration: Option<u64>,
}

impl State {
    /// How the execution stands, in one word.
    pub fn status(&self) -> RunStatus {
        match self.phase {
            Phase::Ended(Ending::Success) => RunStatus::Completed,
            Phase::Ended(Ending::Error) => RunStatus::Failed,
            Phase::Ended(Ending::Cancelled) => RunStatus::Cancelled,
            Phase::Live if self.paused => RunStatus::Paused,
            Phase::Live => RunStatus::Running,
        }
    }

    /// Whether the execution has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// The command that carries this pipeline: the newest that covers it, since an iteration that left its range to
    /// wait comes back under a command of its own while the range goes on.
    pub fn carrier(&self, run: &StepRunId, iteration: Option<u64>) -> Option<Seq> {
        let mut newest_first = self.commands.iter().rev();
        let carries = |command: &LiveCommand| command.run == *run && command.covers(iteration);
        let found = newest_first.find(|(_, command)| carries(command));
        found.map(|(seq, _)| *seq)
    }

    /// The `ctx` that a run's pipelines begin with.
    pub fn ctx_of(&self, run: &StepRunId) -> &Arc<Map<String, Value>> {
        let loop_ = self.runs.get(run).and_then(|run| run.loop_.as_ref());
        let fixed = loop_.and_then(|loop_| loop_.ctx.as_ref());
        fixed.unwrap_or(&self.ctx)
    }

    /// How often a step was scheduled.
    pub fn runs_of(&self, step: &Name) -> u32 {
        self.steps.get(step).map_or(0, |summary| summary.runs)
    }

    /// Applies a patch of `ctx`, and keeps count of its size.
    pub(super) fn patch_ctx(&mut self, patch: &Map<String, Value>) {
        let next = model::ctx::patched_values(&self.ctx, patch);
        self.ctx_bytes = self.bytes_with(&next);
        Arc::make_mut(&mut self.ctx).extend(next);
    }

    /// The length of `ctx` as JSON text after a patch.
    pub(crate) fn ctx_bytes_after(&self, patch: &Map<String, Value>) -> usize {
        self.bytes_with(&model::ctx::patched_values(&self.ctx, patch))
    }

    fn bytes_with(&self, next: &Map<String, Value>) -> usize {
        let mut bytes = self.ctx_bytes;
        let mut keys = self.ctx.len();
        for (key, value) in next {
            if let Some(before) = self.ctx.get(key) {
                bytes -= model::size::bytes(before);
            } else {
                // Its name, a colon, and a comma behind the entry before it.
                bytes += model::size::bytes(key) + 1 + usize::from(keys > 0);
                keys += 1;
            }
            bytes += model::size::bytes(value);
        }
        bytes
    }
}
