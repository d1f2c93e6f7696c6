//! Step runs and the commands that carry them.

use std::collections::BTreeMap;

use model::command::{Continuation, Work};
use model::event::Awaits;
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, StepRunId, TokenId, WorkerId};
use model::outcome::TaskError;
use model::raw::Raw;
use model::result_ref::ResultRef;
use model::time::Time;
use serde::{Deserialize, Serialize};

use crate::state::{BoundaryKind, LoopRun};

/// One run of a step that is live or held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The `step.scheduled` event.
    pub scheduled: Seq,
    /// The tokens it took, oldest first.
    pub tokens: Vec<TokenId>,
    /// Their merged payload.
    pub args: Option<Raw>,
    /// Whether this is the run of `final_step`.
    pub is_final: bool,
    /// Whether the worker's `step.started` is recorded.
    pub started: bool,
    /// The pipeline of a plain step.
    pub pipeline: Continuation,
    /// The loop, once its collection is fixed.
    pub loop_: Option<LoopRun>,
    /// The collection a worker prepared, before the loop starts or goes on over it.
    pub prepared: Option<Box<ResultRef>>,
    /// How it ended, until its arcs are looked at.
    pub boundary: Option<Ended>,
    /// Whether it failed and nothing handles that.
    pub held: bool,
    /// How many workers died while they ran the current task of the plain pipeline.
    pub strikes: u32,
    /// How often the plain pipeline was offered.
    pub dispatches: u32,
    /// What each suspended pipeline waits for; the key is the iteration.
    pub waits: BTreeMap<Option<u64>, Waiting>,
    /// The last child that each task of the plain pipeline started, which a retry takes up again.
    pub children: BTreeMap<(Option<u64>, Name), Child>,
}

/// What a suspended pipeline waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The `task.started` event.
    pub since: Seq,
    /// What it waits for.
    pub awaits: Awaits,
}

/// A child execution that a task started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The child.
    pub execution: ExecutionId,
    /// Whether its end was waited for and was a failure.
    pub failed: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The boundary event.
    pub seq: Seq,
    /// How.
    pub end: BoundaryKind,
    /// When.
    pub timestamp: Time,
    /// Why, if it failed.
    pub error: Option<TaskError>,
}

/// A command on offer or held by a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveCommand {
    /// The run it belongs to.
    pub run: StepRunId,
    /// Which part of it.
    pub work: Work,
    /// How many workers died while they ran the current task of the one pipeline it carries.
    pub strikes: u32,
    /// How many iterations it may run at once; each that leaves it to wait takes its place with it.
    pub width: u32,
    /// How many of its iterations have neither ended nor left it to wait.
    pub open: u64,
    /// Who holds it, once that is in the log.
    pub claimed: Option<(WorkerId, LeaseEpoch)>,
}

impl LiveCommand {
    /// What is left of the work: iterations that left a range to wait took their place with them.
    pub fn work_left(&self) -> Work {
        match self.work {
            Work::Range { from, to, .. } => Work::Range {
                from,
                to,
                width: self.width.max(1),
            },
            other => other,
        }
    }

    /// Whether the command carries this pipeline.
    pub fn covers(&self, iteration: Option<u64>) -> bool {
        match (self.work, iteration) {
            (Work::Range { from, to, .. }, Some(index)) => (from..to).contains(&index),
            (Work::Iteration { index }, Some(asked)) => index == asked,
            (Work::Pipeline | Work::Prepare, None) => true,
            _ => false,
        }
    }
}

impl Run {
    /// What was prepared is in the loop. The next claim of a cursor loop is one more visit of the task that claims.
    pub(super) fn claim_anew(&mut self) {
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

    /// The same, to change.
    pub fn continuation_mut(&mut self, iteration: Option<u64>) -> Option<&mut Continuation> {
        match (iteration, &mut self.loop_) {
            (None, _) => Some(&mut self.pipeline),
            (Some(index), Some(loop_)) => loop_.live.get_mut(&index),
            (Some(_), None) => None,
        }
    }
}
