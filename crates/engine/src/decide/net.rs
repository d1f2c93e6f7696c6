//! What decisions are made from beside the state, and why one may not be made.

use std::time::Duration;

use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{DefaultError, Playbook};
use model::raw::Raw;
use model::size::too_large;
use model::template::Need;
use serde::{Deserialize, Serialize};

use crate::graph::Graph;
use crate::state::StepKind;

/// A playbook ready to be decided about.
#[derive(Debug, Clone)]
pub struct Net {
    /// The document.
    pub playbook: std::sync::Arc<Playbook>,
    /// Its arcs.
    pub graph: Graph,
    /// The bounds that hold.
    pub limits: Limits,
    /// The size of the playbook's own workload.
    workload_bytes: usize,
    arcs_of_a_step_max: usize,
}

impl Net {
    /// Reads the playbook's arcs.
    pub fn new(playbook: std::sync::Arc<Playbook>, limits: Limits) -> Self {
        let graph = Graph::of(&playbook);
        let workload_bytes = model::size::bytes(&playbook.workload);
        let own = playbook.executor.step_runs_max;
        let limits = Limits {
            step_runs_max: own.unwrap_or(limits.step_runs_max),
            ..limits
        };
        let arcs = playbook.steps.iter().map(|step| step.next.arcs.len());
        let arcs_of_a_step_max = arcs.max().unwrap_or(0);
        Self {
            playbook,
            graph,
            limits,
            workload_bytes,
            arcs_of_a_step_max,
        }
    }

    /// The most arcs that one step has.
    pub fn arcs_of_a_step_max(&self) -> usize {
        self.arcs_of_a_step_max
    }

    /// What of a step's definition the lookups into the state depend on.
    pub(crate) fn kind_of(&self, step: &Name) -> StepKind {
        match self.playbook.step(step.as_str()) {
            Some(step) if step.loop_.is_some() => StepKind::Loop,
            Some(step) if !step.tasks.is_empty() => StepKind::Plain,
            _ => StepKind::Routing,
        }
    }

    /// Whether a request with this payload fits into the event that records it.
    pub fn must_fit(&self, payload: Option<&Raw>) -> Result<(), Refusal> {
        let given = payload.map_or(0, |payload| payload.text().len());
        let limit = self.limits.event_bytes_max;
        let is_over = |bytes| too_large("the workload", bytes, limit).is_some();
        if is_over(self.workload_bytes + given)
            && is_over(model::size::bytes(&self.workload_with(payload)))
        {
            return Err(Refusal::TooLarge);
        }
        Ok(())
    }
}

/// The bounds of an execution; each has a named error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How often one step may run: `LIMIT_STEP_RUNS`.
    pub step_runs_max: u32,
    /// How deep sub-playbooks may nest: `LIMIT_DEPTH`.
    pub depth_max: u32,
    /// How large `ctx` may grow: `LIMIT_CTX`.
    pub ctx_bytes_max: usize,
    /// How large an event may be: `LIMIT_EVENT`.
    pub event_bytes_max: usize,
    /// How long a command may wait for a worker: `SCHEDULE_TO_START`.
    pub schedule_to_start: Duration,
    /// How long workers may take to stop.
    pub stop_grace: Duration,
    /// How often a worker may die with a command before it is given up: `DEAD_LETTER`.
    pub strikes_max: u32,
    /// How many iterations of a parallel loop run at once unless it says.
    pub max_in_flight: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step_runs_max: 100_000,
            depth_max: 16,
            ctx_bytes_max: model::ctx::CTX_BYTES_MAX,
            event_bytes_max: model::size::EVENT_BYTES_MAX,
            schedule_to_start: Duration::from_secs(3600),
            stop_grace: Duration::from_secs(10),
            strikes_max: 3,
            max_in_flight: 16,
        }
    }
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Undecided {
    /// Something must be loaded first; load it and ask again.
    #[error("a body or an outcome must be loaded first")]
    Needs(Vec<Need>),
    /// The input does not fit the execution; nothing is recorded.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why an input is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The command is not live, or another claim is.
    #[error("the command is no longer held under this claim")]
    Fenced,
    /// The execution has ended.
    #[error("the execution has ended")]
    Ended,
    /// Only a failed or cancelled execution can be retried.
    #[error("only a failed or cancelled execution can be retried")]
    NotRetryable,
    /// There is nothing to go on with.
    #[error("the execution is not paused")]
    NotPaused,
    /// The execution is paused already.
    #[error("the execution is paused already")]
    AlreadyPaused,
    /// A report holds an event that its command does not cover, or that only the server may emit.
    #[error("the report holds an event its command does not cover")]
    Foreign,
    /// Nothing waits for this child; it was heard of before, or what waited has ended.
    #[error("nothing waits for this child")]
    NotAwaited,
    /// The timer does not run.
    #[error("the timer does not run")]
    NoTimer,
    /// What is given is more than one event holds.
    #[error("the data is larger than an event may be; keep it elsewhere and hand over a reference")]
    TooLarge,
    /// A default of `workload` or `ctx` cannot be rendered.
    #[error(transparent)]
    Default(DefaultError),
    /// The playbook to go on with lacks a step that a token stands at.
    #[error("a token stands at step `{0}`, which this version of the playbook does not have")]
    StepMissing(Name),
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    StepUnknown(Name),
    /// The step was never scheduled, so there is nothing to begin from.
    #[error("step `{0}` never ran in this execution")]
    StepNeverRan(Name),
    /// The step's first run was no loop, or no step is named.
    #[error("an iteration can only be named of a step that ran as a loop")]
    NotALoop,
    /// The loop has no such iteration.
    #[error("iteration {index} does not exist: the loop has {total}, counted from 0")]
    NoIteration {
        /// The one asked for.
        index: u64,
        /// How many there are.
        total: u64,
    },
    /// Later iterations than the one named were taken over from another run.
    #[error("later iterations were taken over from another run; run that one again from there")]
    TakenOver,
    /// The rows of a cursor loop are claimed anew; none of them can be left out.
    #[error("a cursor loop claims its rows anew; run its step again as a whole")]
    Claims,
    /// Only a run that has ended can be done again.
    #[error("the execution still runs; only one that has ended can be run again")]
    StillRuns,
}

impl Refusal {
    /// The failure of a task whose child was refused.
    pub fn failure(&self) -> TaskError {
        TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::ClientError, self.code(), self.to_string())
        }
    }

    /// The stable code shown to people.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Fenced => "FENCED",
            Self::TooLarge => "LIMIT_EVENT",
            Self::Default(_) => "DEFAULT_TEMPLATE",
            Self::Ended => "EXECUTION_ENDED",
            Self::NotRetryable => "NOT_RETRYABLE",
            Self::NotPaused => "NOT_PAUSED",
            Self::AlreadyPaused => "ALREADY_PAUSED",
            Self::Foreign => "NOT_COVERED",
            Self::NotAwaited => "NOT_AWAITED",
            Self::NoTimer => "NO_TIMER",
            Self::StepMissing(_) => "STEP_MISSING",
            Self::StepUnknown(_) => "STEP_UNKNOWN",
            Self::StepNeverRan(_) => "STEP_NEVER_RAN",
            Self::NotALoop => "NOT_A_LOOP",
            Self::NoIteration { .. } => "ITERATION_OUT_OF_RANGE",
            Self::TakenOver => "ITERATIONS_TAKEN_OVER",
            Self::Claims => "CURSOR_LOOP",
            Self::StillRuns => "EXECUTION_RUNNING",
        }
    }
}
