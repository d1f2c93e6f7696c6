//! One run of a step, and its loop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::id::{Name, Seq};
use model::outcome::TaskError;
use model::raw::Raw;
use model::result_ref::ResultRef;
use model::time::Time;

/// How many failed iterations are kept with their errors; all are counted.
pub(super) const FAILURES_KEPT: usize = 100;
/// How many of the latest durations tell how long an iteration takes.
const DURATIONS_KEPT: usize = 512;

/// How a step run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It goes on.
    Running,
    /// It ended as hoped.
    Done,
    /// It failed.
    Failed,
    /// The run ended without it.
    Stopped,
}

impl Standing {
    /// The word for it.
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
    /// The step.
    pub(crate) step: Name,
    /// Counts its runs from 1.
    pub(crate) run: u32,
    /// How it stands.
    pub(crate) standing: Standing,
    /// When it was scheduled.
    pub(crate) started_at: Time,
    /// When it ended.
    pub(crate) ended_at: Option<Time>,
    /// The event that ended it.
    pub(crate) boundary: Option<Seq>,
    /// How often a task of it was tried again.
    pub(crate) retries: u64,
    /// Its loop, if it has one.
    pub(crate) lap: Option<LoopView>,
    /// What its tasks do now, by iteration and label.
    pub(crate) open: BTreeMap<(Option<u64>, Name), OpenTask>,
    /// The outcome of the task that ended last, of a step without a loop.
    pub(crate) outcome: Option<Raw>,
    /// Where that outcome's body lives.
    pub(crate) body: Option<Box<ResultRef>>,
    /// What failed in it, by iteration; at most a hundred.
    pub(crate) failures: BTreeMap<Option<u64>, StepFailure>,
    /// Task failures that nothing has followed yet, by iteration.
    pub(super) suspects: BTreeMap<Option<u64>, StepFailure>,
}

/// A task that goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenTask {
    /// The current try.
    pub(crate) attempt: u32,
    /// How many tries there are in all, once a policy has said so.
    pub(crate) attempts_max: Option<u32>,
    /// Whether it failed and is tried again.
    pub(crate) retrying: bool,
    /// What it waits for with its slot freed.
    pub(crate) waits_for: Option<String>,
}

/// What failed in a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepFailure {
    /// The task, where one failed.
    pub(crate) task: Option<Name>,
    /// The try it failed at.
    pub(crate) attempt: u32,
    /// How many there were in all.
    pub(crate) attempts_max: Option<u32>,
    /// Why.
    pub(crate) error: TaskError,
}

/// How far a loop has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopView {
    /// How many iterations there are.
    pub(crate) total: u64,
    /// Those that ended well.
    pub(crate) succeeded: u64,
    /// Those that failed; after an outline, the first of them.
    pub(crate) failed: BTreeSet<u64>,
    /// Those that go on; after an outline, only those whose events were folded.
    pub(crate) in_flight: BTreeSet<u64>,
    /// Counts of an outline, beside the iterations whose events were folded.
    pub(super) outlined: OutlinedCounts,
    /// How long the latest took, in milliseconds.
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
            standing: Standing::Running,
            started_at,
            ended_at: None,
            boundary: None,
            retries: 0,
            lap: None,
            open: BTreeMap::new(),
            outcome: None,
            body: None,
            failures: BTreeMap::new(),
            suspects: BTreeMap::new(),
        }
    }

    /// How many tasks are tried again at this moment.
    pub(crate) fn retrying(&self) -> usize {
        self.open.values().filter(|task| task.retrying).count()
    }

    /// How long it took, or has taken up to `now`, in milliseconds.
    pub(crate) fn elapsed_ms(&self, now: Time) -> u64 {
        let span = self.ended_at.unwrap_or(now).since(self.started_at);
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }

    /// Why it failed, in a few words: its own error, or the first of its iterations'.
    pub(crate) fn failure(&self) -> Option<(Option<u64>, &StepFailure)> {
        let own = self.failures.get(&None).map(|failure| (None, failure));
        let first = self
            .failures
            .iter()
            .find(|(iteration, _)| iteration.is_some())
            .map(|(iteration, failure)| (*iteration, failure));
        first.or(own)
    }
}

impl LoopView {
    /// How many iterations have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.succeeded + self.failed_count()
    }

    /// How many iterations failed.
    pub(crate) fn failed_count(&self) -> u64 {
        self.failed.len() as u64 + self.outlined.failed
    }

    /// How many iterations have begun and not ended.
    pub(crate) fn in_flight_count(&self) -> u64 {
        self.in_flight.len() as u64 + self.outlined.in_flight
    }

    pub(super) fn took(&mut self, duration_ms: Option<u64>) {
        let Some(duration_ms) = duration_ms else {
            return;
        };
        if self.durations.len() == DURATIONS_KEPT {
            self.durations.pop_front();
        }
        self.durations.push_back(duration_ms);
    }

    /// What nineteen of twenty of the latest iterations stayed within, in milliseconds.
    pub(crate) fn p95_ms(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.durations.iter().copied().collect();
        sorted.sort_unstable();
        sorted
            .get((sorted.len() * 95 / 100).min(sorted.len().checked_sub(1)?))
            .copied()
    }
}
