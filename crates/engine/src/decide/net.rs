//! The inputs of a decision besides the state (`PlaybookNet`, `ExecutionLimits`), and the reasons why no decision is made.

use std::time::Duration;

use language::playbook::{DefaultError, Playbook};
use language::template::Need;
use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use model::size::size_error;
use serde::{Deserialize, Serialize};

use crate::graph::Graph;
use crate::state::StepKind;

/// A playbook with its arcs and limits, ready for decisions.
#[derive(Debug, Clone)]
pub struct PlaybookNet {
    /// The document.
    pub playbook: std::sync::Arc<Playbook>,
    /// Its arcs.
    pub graph: Graph,
    /// The limits that apply.
    pub limits: ExecutionLimits,
    /// Size of the workload defaults.
    workload_bytes: usize,
    step_arcs_max: usize,
}

impl PlaybookNet {
    /// Reads the playbook's arcs.
    pub fn new(playbook: std::sync::Arc<Playbook>, limits: ExecutionLimits) -> Self {
        let graph = Graph::from_playbook(&playbook);
        let workload_bytes = model::size::json_bytes(&playbook.workload);
        let playbook_limit = playbook.executor.step_runs_max;
        let limits = ExecutionLimits {
            step_runs_max: playbook_limit.unwrap_or(limits.step_runs_max),
            ..limits
        };
        let arcs = playbook.steps.iter().map(|step| step.next.arcs.len());
        let step_arcs_max = arcs.max().unwrap_or(0);
        Self {
            playbook,
            graph,
            limits,
            workload_bytes,
            step_arcs_max,
        }
    }

    /// The maximum number of arcs of one step.
    pub fn step_arcs_max(&self) -> usize {
        self.step_arcs_max
    }

    /// The step kind, which the indexes of the state depend on.
    pub(crate) fn kind_of(&self, step: &Name) -> StepKind {
        match self.playbook.step(step.as_str()) {
            Some(step) if step.loop_.is_some() => StepKind::Loop,
            Some(step) if !step.tasks.is_empty() => StepKind::Plain,
            _ => StepKind::Routing,
        }
    }

    /// Checks that a request with this payload fits into the event that records it.
    pub fn check_payload_size(&self, payload: Option<&RawJson>) -> Result<(), Refusal> {
        let payload_bytes = payload.map_or(0, |payload| payload.text().len());
        let limit = self.limits.event_bytes_max;
        let is_too_large = |bytes| size_error("the workload", bytes, limit).is_some();
        if is_too_large(self.workload_bytes + payload_bytes)
            && is_too_large(model::size::json_bytes(&self.workload_with(payload)))
        {
            return Err(Refusal::TooLarge);
        }
        Ok(())
    }
}

/// The limits of an execution; each has an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutionLimits {
    /// Maximum number of runs of one step: `LIMIT_STEP_RUNS`.
    pub step_runs_max: u32,
    /// Maximum nesting depth of sub-playbooks: `LIMIT_DEPTH`.
    pub depth_max: u32,
    /// Maximum size of `ctx`: `LIMIT_CTX`.
    pub ctx_bytes_max: usize,
    /// Maximum size of an event: `LIMIT_EVENT`.
    pub event_bytes_max: usize,
    /// Maximum time that a command waits for a worker: `SCHEDULE_TO_START`.
    pub schedule_to_start: Duration,
    /// Time that workers have to stop.
    pub stop_grace: Duration,
    /// Number of worker deaths after which a command is dead-lettered: `DEAD_LETTER`.
    pub strikes_max: u32,
    /// Default number of concurrent iterations of a parallel loop.
    pub max_in_flight: u32,
}

impl Default for ExecutionLimits {
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

/// The reasons why there is no decision.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecideError {
    /// Data must be loaded first; load it and call `decide` again.
    #[error("a stored result or an outcome must be loaded first")]
    Needs(Vec<Need>),
    /// The execution's state does not allow the input; nothing is recorded.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The reasons why an input is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The command has ended, or a newer claim on it exists.
    #[error("the lease on this command has expired")]
    Fenced,
    /// The execution has ended.
    #[error("the run has already finished")]
    #[serde(rename = "Ended")]
    ExecutionEnded,
    /// The execution has neither failed nor been cancelled.
    #[error("only a failed or cancelled run can be retried")]
    NotRetryable,
    /// A resume of an execution that is not paused.
    #[error("the run is not paused")]
    NotPaused,
    /// A pause of an execution that is already paused.
    #[error("the run is already paused")]
    AlreadyPaused,
    /// A report contains an event that its command does not cover, or that only the server may emit.
    #[error("the report contains an event that its command does not cover")]
    #[serde(rename = "Foreign")]
    NotCovered,
    /// No task waits for this child: its end was already received, or the waiting task has ended.
    #[error("no task waits for this child run")]
    NotAwaited,
    /// The timer has fired, was removed, or is not due yet.
    #[error("the timer is not active")]
    NoTimer,
    /// The data does not fit into one event.
    #[error("payload exceeds the 256 KiB event limit; store it elsewhere and pass a reference to it")]
    TooLarge,
    /// A default of `workload` or `ctx` cannot be rendered.
    #[error(transparent)]
    Default(DefaultError),
    /// The playbook to switch to lacks a step that has a token or an open run.
    #[error(
        "the run is at step `{0}`, which this playbook version does not have; \
         keep the step, or rerun from an earlier one"
    )]
    StepMissing(Name),
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    StepUnknown(Name),
    /// The step was never scheduled, so a rerun cannot start from it.
    #[error("this run never reached step `{0}`")]
    StepNeverRan(Name),
    /// The step's first run was not a loop, or the request names no step.
    #[error("an iteration can only be selected for a step that ran as a loop")]
    NotALoop,
    /// The loop has no such iteration.
    #[error("iteration {index} does not exist: the loop has {total} iterations, counted from 0")]
    #[serde(rename = "NoIteration")]
    IterationOutOfRange {
        /// The requested index.
        index: u64,
        /// The number of iterations.
        total: u64,
    },
    /// Iterations after the requested one were reused from another execution.
    #[error("later iterations were reused from another run; rerun that run from this iteration")]
    #[serde(rename = "TakenOver")]
    IterationsReused,
    /// A cursor loop claims its rows again, so no iteration can be reused.
    #[error("cannot rerun part of a cursor loop: it claims its rows again; rerun the whole step")]
    #[serde(rename = "Claims")]
    CursorLoop,
    /// A rerun of an execution that has not ended.
    #[error("the run is still active; wait for it or cancel it before rerunning")]
    #[serde(rename = "StillRuns")]
    StillRunning,
}

impl Refusal {
    /// The error of a task whose child execution was refused.
    pub fn to_task_error(&self) -> TaskError {
        TaskError::permanent(ErrorKind::ClientError, self.code(), self.to_string())
    }

    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Fenced => "FENCED",
            Self::TooLarge => "LIMIT_EVENT",
            Self::Default(_) => "DEFAULT_TEMPLATE",
            Self::ExecutionEnded => "EXECUTION_ENDED",
            Self::NotRetryable => "NOT_RETRYABLE",
            Self::NotPaused => "NOT_PAUSED",
            Self::AlreadyPaused => "ALREADY_PAUSED",
            Self::NotCovered => "NOT_COVERED",
            Self::NotAwaited => "NOT_AWAITED",
            Self::NoTimer => "NO_TIMER",
            Self::StepMissing(_) => "STEP_MISSING",
            Self::StepUnknown(_) => "STEP_UNKNOWN",
            Self::StepNeverRan(_) => "STEP_NEVER_RAN",
            Self::NotALoop => "NOT_A_LOOP",
            Self::IterationOutOfRange { .. } => "ITERATION_OUT_OF_RANGE",
            Self::IterationsReused => "ITERATIONS_TAKEN_OVER",
            Self::CursorLoop => "CURSOR_LOOP",
            Self::StillRunning => "EXECUTION_RUNNING",
        }
    }
}
