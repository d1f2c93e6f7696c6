//! The types of the state: an execution, its tokens, runs, commands and timers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::event::{EndStatus, EventKind, ParentTask, ResultPointer, ReusedIterations, TimerPurpose};
use model::id::{ExecutionId, Name, PlaybookHash, Seq, StepRunId, TokenId};
use model::outcome::TaskError;
use model::raw::RawJson;
use model::status::RunStatus;
use model::step_pointer::StepPointer;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::state::{LiveCommand, SharedMap, StateIndex, StepRun};

/// The current state of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionState {
    /// The execution.
    pub execution: ExecutionId,
    /// The last event folded.
    pub seq: Seq,
    /// The retry number of the execution, from 1.
    pub generation: u32,
    /// Whether it is active.
    pub phase: Phase,
    /// Whether no commands may be issued.
    pub paused: bool,
    /// Why the execution is stopping, if it is.
    pub stop: Option<StopInProgress>,
    /// The playbook's path.
    pub path: Name,
    /// Its catalog version.
    pub version: u32,
    /// The hash of its text.
    pub hash: PlaybookHash,
    /// The merged inputs.
    pub workload: RawJson,
    /// The parent that started it.
    pub parent: Option<ParentTask>,
    /// Nesting depth of sub-playbooks.
    pub depth: u32,
    /// The trace it belongs to, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Name>,
    /// The mutable variables of the execution.
    pub ctx: Arc<Map<String, Value>>,
    /// The length of its JSON text.
    pub ctx_bytes: usize,
    /// The last event that changed it.
    pub ctx_seq: Seq,
    /// Tokens that wait at a step or are parked there.
    pub tokens: SharedMap<TokenId, Token>,
    /// Step runs that are live or held.
    pub runs: SharedMap<StepRunId, StepRun>,
    /// A summary of each step that has run.
    pub steps: SharedMap<Name, StepSummary>,
    /// Commands that are offered or claimed.
    pub commands: SharedMap<Seq, LiveCommand>,
    /// Active timers.
    pub timers: SharedMap<Seq, LiveTimer>,
    /// Signals that no task has received, oldest first.
    pub signals: BTreeMap<Name, VecDeque<Seq>>,
    /// The step that ended last.
    pub last_boundary: Option<ResultPointer>,
    /// The end of a step named `end`, which has the execution's result.
    pub end_boundary: Option<ResultPointer>,
    /// The first failure that no arc handled.
    pub error: Option<TaskError>,
    /// Whether `final_step` was scheduled in this generation.
    pub final_ran: bool,
    /// Iterations that the next run of a loop reuses, and the event that records it.
    #[serde(default)]
    pub reusing: BTreeMap<Name, (Seq, ReusedIterations)>,
    /// Index for decisions; derived from the other fields.
    #[serde(skip)]
    pub(crate) index: Arc<StateIndex>,
}

/// Whether an execution is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is active.
    Live,
    /// It has ended.
    Ended(EndStatus),
}

/// The execution is stopping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopInProgress {
    /// The reason.
    pub reason: StopReason,
    /// The event that requested it.
    pub since: Seq,
    /// Whether awaited children continue.
    #[serde(default)]
    pub spares_children: bool,
    /// The reason given in the request.
    #[serde(default)]
    pub note: Option<String>,
}

/// Why an execution is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A user or the parent cancelled it.
    Cancelled,
    /// A failure ends the whole execution.
    Failed,
    /// A user finalized it with this ending.
    Finalized(EndStatus),
}

/// A token at a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// The step it waits at.
    pub step: Name,
    /// Its arguments.
    pub args: Option<RawJson>,
    /// The boundary event of the step that produced it, if any.
    pub boundary: Option<Boundary>,
    /// Whether admission parked it.
    pub parked: bool,
}

/// The end of the step that produced a token, as admission sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boundary {
    /// The event.
    pub seq: Seq,
    /// The step that ended.
    pub step: Name,
    /// How it ended.
    pub end: BoundaryKind,
    /// When it ended.
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

impl BoundaryKind {
    /// The kind of the event that ended the run.
    pub(crate) fn event_kind(self) -> EventKind {
        match self {
            Self::Done => EventKind::StepDone,
            Self::Failed => EventKind::StepFailed,
            Self::LoopDone => EventKind::LoopDone,
        }
    }
}

/// The summary of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSummary {
    /// Number of times it was scheduled.
    pub runs: u32,
    /// Its latest end.
    pub latest: Option<StepPointer>,
}

/// An active timer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveTimer {
    /// The purpose.
    pub purpose: TimerPurpose,
    /// The time it fires.
    pub due: Time,
    /// The step run it belongs to.
    pub run: Option<StepRunId>,
    /// The iteration it belongs to.
    pub iteration: Option<u64>,
}

impl ExecutionState {
    /// The status of the execution.
    pub fn status(&self) -> RunStatus {
        match self.phase {
            Phase::Ended(EndStatus::Success) => RunStatus::Completed,
            Phase::Ended(EndStatus::Error) => RunStatus::Failed,
            Phase::Ended(EndStatus::Cancelled) => RunStatus::Cancelled,
            Phase::Live if self.paused => RunStatus::Paused,
            Phase::Live => RunStatus::Running,
        }
    }

    /// Whether the execution has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// The command that covers this pipeline. If several do, the newest one: a suspended iteration resumes under its
    /// own command while its range continues.
    pub fn command_covering(&self, run: &StepRunId, iteration: Option<u64>) -> Option<Seq> {
        let mut newest_first = self.commands.iter().rev();
        let carries = |command: &LiveCommand| command.run == *run && command.covers(iteration);
        let newest = newest_first.find(|(_, command)| carries(command));
        newest.map(|(seq, _)| *seq)
    }

    /// The `ctx` that a run's pipelines start with.
    pub fn ctx_of(&self, run: &StepRunId) -> &Arc<Map<String, Value>> {
        let loop_ = self.runs.get(run).and_then(|run| run.loop_.as_ref());
        let fixed = loop_.and_then(|loop_| loop_.ctx.as_ref());
        fixed.unwrap_or(&self.ctx)
    }

    /// Number of times a step was scheduled.
    pub fn run_count(&self, step: &Name) -> u32 {
        self.steps.get(step).map_or(0, |summary| summary.runs)
    }

    /// Applies a patch of `ctx` and updates its size.
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
                bytes -= model::size::json_bytes(before);
            } else {
                // The key, a colon, and a comma after the previous entry.
                bytes += model::size::json_bytes(key) + 1 + usize::from(keys > 0);
                keys += 1;
            }
            bytes += model::size::json_bytes(value);
        }
        bytes
    }
}
