//! Step runs and the commands that cover them.

use std::collections::BTreeMap;

use model::command::{CommandWork, Continuation};
use model::event::AwaitTarget;
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, StepRunId, TokenId, WorkerId};
use model::outcome::TaskError;
use model::raw::RawJson;
use model::result_ref::ResultRef;
use model::time::Time;
use serde::{Deserialize, Serialize};

use crate::state::{BoundaryKind, LoopRun};

/// One run of a step that is live or held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRun {
    /// The `step.scheduled` event.
    pub scheduled: Seq,
    /// The tokens it consumed, oldest first.
    pub tokens: Vec<TokenId>,
    /// Their merged arguments.
    pub args: Option<RawJson>,
    /// Whether this is the run of `final_step`.
    pub is_final: bool,
    /// Whether the worker's `step.started` is recorded.
    pub started: bool,
    /// The pipeline of a plain step.
    pub pipeline: Continuation,
    /// The loop, once its collection is fixed.
    pub loop_: Option<LoopRun>,
    /// The collection that a worker prepared, until the loop starts or continues with it.
    pub prepared: Option<Box<ResultRef>>,
    /// How it ended, until its arcs are evaluated.
    pub boundary: Option<StepRunEnd>,
    /// Whether it failed and no arc handles the failure.
    pub held: bool,
    /// Number of workers that died while running the current task of the plain pipeline.
    pub strikes: u32,
    /// Number of times that the plain pipeline was offered.
    pub dispatches: u32,
    /// What each suspended pipeline waits for; the key is the iteration.
    pub waits: BTreeMap<Option<u64>, PendingWait>,
    /// The last child that each task started; a retry retries that child if it failed.
    pub children: BTreeMap<(Option<u64>, Name), ChildExecution>,
}

/// What a suspended pipeline waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingWait {
    /// The `task.started` event.
    pub since: Seq,
    /// The awaited event.
    pub awaits: AwaitTarget,
}

/// A child execution that a task started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildExecution {
    /// The child.
    pub execution: ExecutionId,
    /// Whether the task waited for the child, and the child failed.
    pub failed: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRunEnd {
    /// The boundary event.
    pub seq: Seq,
    /// How it ended.
    pub end: BoundaryKind,
    /// When it ended.
    pub timestamp: Time,
    /// The error, if it failed.
    pub error: Option<TaskError>,
}

/// A command that is offered or claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveCommand {
    /// The run it belongs to.
    pub run: StepRunId,
    /// The part of the run that it covers.
    pub work: CommandWork,
    /// Number of workers that died while running the current task of its only pipeline.
    pub strikes: u32,
    /// Maximum number of concurrent iterations; each suspended iteration reduces it by one.
    pub width: u32,
    /// Number of its iterations that have neither ended nor been suspended.
    pub open: u64,
    /// The worker and its claim, once the log records them.
    pub claimed: Option<(WorkerId, LeaseEpoch)>,
}

impl LiveCommand {
    /// The remaining work: suspended iterations have reduced the width of a range.
    pub fn work_left(&self) -> CommandWork {
        match self.work {
            CommandWork::Range { from, to, .. } => CommandWork::Range {
                from,
                to,
                width: self.width.max(1),
            },
            other => other,
        }
    }

    /// Whether the command covers this pipeline.
    pub fn covers(&self, iteration: Option<u64>) -> bool {
        match (self.work, iteration) {
            (CommandWork::Range { from, to, .. }, Some(index)) => (from..to).contains(&index),
            (CommandWork::Iteration { index }, Some(requested)) => index == requested,
            (CommandWork::Pipeline | CommandWork::Prepare, None) => true,
            _ => false,
        }
    }
}

impl StepRun {
    /// Clears the prepared collection, which the loop now contains. The next claim of a cursor loop is a new visit of
    /// the claiming task.
    pub(super) fn prepare_next_claim(&mut self) {
        self.prepared = None;
        self.strikes = 0;
        self.pipeline = Continuation {
            visits: std::mem::take(&mut self.pipeline.visits),
            ..Continuation::default()
        };
    }

    /// The pipeline of the run itself or of one of its iterations.
    pub fn continuation(&self, iteration: Option<u64>) -> Option<&Continuation> {
        match (iteration, &self.loop_) {
            (None, _) => Some(&self.pipeline),
            (Some(index), Some(loop_)) => loop_.live.get(&index),
            (Some(_), None) => None,
        }
    }

    /// Like [`continuation`](Self::continuation), but mutable.
    pub fn continuation_mut(&mut self, iteration: Option<u64>) -> Option<&mut Continuation> {
        match (iteration, &mut self.loop_) {
            (None, _) => Some(&mut self.pipeline),
            (Some(index), Some(loop_)) => loop_.live.get_mut(&index),
            (Some(_), None) => None,
        }
    }
}
