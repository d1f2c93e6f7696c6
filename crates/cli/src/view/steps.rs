//! View of a step run and its loop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::id::{Name, Seq};
use model::outcome::TaskError;
use model::raw::RawJson;
use model::result_ref::ResultRef;
use model::time::Time;

/// Maximum number of failed iterations whose errors are stored; all are counted.
pub(super) const FAILURES_MAX: usize = 100;
/// Number of latest iteration durations from which the 95th percentile is computed.
const DURATIONS_MAX: usize = 512;

/// Status of a step run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepStatus {
    /// Active.
    Running,
    /// Succeeded.
    Done,
    /// Failed.
    Failed,
    /// The run ended before the step did.
    Stopped,
}

impl StepStatus {
    /// Returns the name in JSON output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// One run of a step.
#[derive(Debug, Clone)]
pub(crate) struct StepView {
    /// Step name.
    pub(crate) step: Name,
    /// Number of the step run, from 1.
    pub(crate) run: u32,
    /// Status.
    pub(crate) status: StepStatus,
    /// When it was scheduled.
    pub(crate) started_at: Time,
    /// When it ended.
    pub(crate) ended_at: Option<Time>,
    /// The event that ended it.
    pub(crate) boundary: Option<Seq>,
    /// Number of task retries.
    pub(crate) retries: u64,
    /// Its loop, if it has one.
    pub(crate) loop_view: Option<LoopView>,
    /// Active tasks, by iteration and label.
    pub(crate) open_tasks: BTreeMap<(Option<u64>, Name), OpenTask>,
    /// Outcome of the task that ended last, if the step has no loop.
    pub(crate) outcome: Option<RawJson>,
    /// Reference to the stored result of that outcome.
    pub(crate) body: Option<Box<ResultRef>>,
    /// Failures by iteration; at most `FAILURES_MAX`.
    pub(crate) failures: BTreeMap<Option<u64>, StepFailure>,
    /// Latest task failures by iteration; they become `failures` if the iteration or step fails.
    pub(super) unconfirmed_failures: BTreeMap<Option<u64>, StepFailure>,
}

/// An active task.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenTask {
    /// Current attempt.
    pub(crate) attempt: u32,
    /// Maximum number of attempts, known after the first policy evaluation.
    pub(crate) attempts_max: Option<u32>,
    /// Whether it failed and is being retried.
    pub(crate) is_retrying: bool,
    /// What it waits for without occupying a slot.
    pub(crate) awaited: Option<String>,
}

/// A failure in a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepFailure {
    /// The failed task, if known.
    pub(crate) task: Option<Name>,
    /// The attempt that failed; 0 if unknown.
    pub(crate) attempt: u32,
    /// Maximum number of attempts.
    pub(crate) attempts_max: Option<u32>,
    /// The error.
    pub(crate) error: TaskError,
}

/// Progress of a loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopView {
    /// Total number of iterations.
    pub(crate) total: u64,
    /// Number of iterations that succeeded.
    pub(crate) succeeded: u64,
    /// Failed iterations; after an outline, only the first ones.
    pub(crate) failed: BTreeSet<u64>,
    /// Active iterations; after an outline, only those whose events were applied.
    pub(crate) in_flight: BTreeSet<u64>,
    /// Counts of an outline, without the iterations whose events were applied.
    pub(super) outlined: OutlinedCounts,
    /// Durations of the latest iterations, in milliseconds.
    pub(super) durations: VecDeque<u64>,
}

/// Iterations that an outline counts without their events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutlinedCounts {
    pub(super) failed: u64,
    pub(super) in_flight: u64,
}

impl StepView {
    pub(super) fn new(step: Name, run: u32, started_at: Time) -> Self {
        Self {
            step,
            run,
            status: StepStatus::Running,
            started_at,
            ended_at: None,
            boundary: None,
            retries: 0,
            loop_view: None,
            open_tasks: BTreeMap::new(),
            outcome: None,
            body: None,
            failures: BTreeMap::new(),
            unconfirmed_failures: BTreeMap::new(),
        }
    }

    /// Returns the number of tasks that are being retried.
    pub(crate) fn retrying_count(&self) -> usize {
        self.open_tasks.values().filter(|task| task.is_retrying).count()
    }

    /// Returns its duration up to its end or `now`, in milliseconds.
    pub(crate) fn elapsed_ms(&self, now: Time) -> u64 {
        let span = self.ended_at.unwrap_or(now).since(self.started_at);
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the failure of its first failed iteration, else its own failure.
    pub(crate) fn failure(&self) -> Option<(Option<u64>, &StepFailure)> {
        let own_failure = self.failures.get(&None).map(|failure| (None, failure));
        let first = self
            .failures
            .iter()
            .find(|(iteration, _)| iteration.is_some())
            .map(|(iteration, failure)| (*iteration, failure));
        first.or(own_failure)
    }
}

impl LoopView {
    /// Returns the number of iterations that have ended.
    pub(crate) fn ended_count(&self) -> u64 {
        self.succeeded + self.failed_count()
    }

    /// Returns the number of failed iterations.
    pub(crate) fn failed_count(&self) -> u64 {
        self.failed.len() as u64 + self.outlined.failed
    }

    /// Returns the number of active iterations.
    pub(crate) fn in_flight_count(&self) -> u64 {
        self.in_flight.len() as u64 + self.outlined.in_flight
    }

    pub(super) fn add_duration(&mut self, duration_ms: Option<u64>) {
        let Some(duration_ms) = duration_ms else {
            return;
        };
        if self.durations.len() == DURATIONS_MAX {
            self.durations.pop_front();
        }
        self.durations.push_back(duration_ms);
    }

    /// Returns the 95th percentile of the latest iteration durations, in milliseconds.
    pub(crate) fn p95_ms(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.durations.iter().copied().collect();
        sorted.sort_unstable();
        sorted
            .get((sorted.len() * 95 / 100).min(sorted.len().checked_sub(1)?))
            .copied()
    }
}
