//! What a store returns about many iterations at once: rows of their index, and when each ran.
//!
//! The cost of a read is limited by the caller, not by the length of the loop.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use model::event::{Event, EventBody, EventHead, EventKind};
use model::id::{Seq, StepRunId};
use model::playbook::Directive;
use model::time::Time;

use crate::iterations::{block_of, is_of_run};

/// A row of `iteration_index`: iterations of one block that one append records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationRow {
    /// The block: the first iteration divided by [`ITERATION_BLOCK`](crate::ITERATION_BLOCK).
    pub block: u64,
    /// The first event of the append that records one of them.
    pub seq: Seq,
    /// The recorded iterations of the block, one bit each.
    pub recorded: u64,
    /// The failed ones among them; without those that failed before a retry.
    pub failed: u64,
}

/// Which rows of the index of a loop run to read: by block, then by sequence number.
#[derive(Debug, Clone)]
pub struct IterationRowQuery {
    /// Only rows after this block and sequence number.
    pub after: (u64, Seq),
    /// The last block.
    pub last_block: u64,
    /// Only rows with failed iterations.
    pub is_failed_only: bool,
    /// Maximum number of rows.
    pub limit: usize,
}

impl IterationRowQuery {
    /// The rows of these iterations; the range is not empty.
    pub fn of_iterations(iterations: &Range<u64>, is_failed_only: bool, limit: usize) -> Self {
        Self {
            after: (block_of(iterations.start), Seq(0)),
            last_block: block_of(iterations.end.saturating_sub(1)),
            is_failed_only,
            limit,
        }
    }
}

/// When iterations of a loop run ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct IterationTimings {
    /// Each iteration that ended or was retried.
    pub timings: BTreeMap<u64, IterationTiming>,
    /// Number of appends that were read.
    pub appends: usize,
    /// Whether all appends with these iterations were read.
    pub is_complete: bool,
}

/// When an iteration ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IterationTiming {
    /// Its start; computed from its duration if its start is in another append than its end.
    pub started_at: Option<Time>,
    /// Its end.
    pub ended_at: Option<Time>,
    /// Whether it failed.
    pub is_failed: bool,
    /// Most attempts of one of its tasks.
    pub attempts: u32,
}

impl IterationTiming {
    /// The time from its start to its end, in microseconds.
    pub fn duration_us(&self) -> Option<u64> {
        let duration = self.ended_at?.since(self.started_at?);
        Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }

    fn start(&mut self, at: Time) {
        if self.ended_at.is_some() {
            // A retry of the execution runs a failed iteration again.
            *self = Self::default();
        }
        self.started_at.get_or_insert(at);
        self.attempts = self.attempts.max(1);
    }

    fn end(&mut self, event: &Event, is_failed: bool) {
        self.ended_at = Some(event.timestamp);
        self.is_failed = is_failed;
        self.attempts = self.attempts.max(1);
        let duration = event.duration_ms.map(Duration::from_millis);
        let computed = duration.map(|duration| event.timestamp.before(duration));
        self.started_at = self.started_at.or(computed);
    }
}

/// Collects the timings of iterations from appends in order.
pub(crate) struct TimingCollector<'a> {
    run: &'a StepRunId,
    iterations: &'a Range<u64>,
    timings: BTreeMap<u64, IterationTiming>,
}

impl<'a> TimingCollector<'a> {
    pub(crate) fn new(run: &'a StepRunId, iterations: &'a Range<u64>) -> Self {
        Self {
            run,
            iterations,
            timings: BTreeMap::new(),
        }
    }

    /// Whether an event is about the time of one of the iterations.
    pub(crate) fn is_selected(&self, head: EventHead<'_>) -> bool {
        matches!(
            head.kind,
            EventKind::IterationStarted
                | EventKind::IterationDone
                | EventKind::IterationFailed
                | EventKind::PolicyEvaluated
        ) && head.iteration.is_some_and(|index| self.iterations.contains(&index))
            && is_of_run(head, self.run)
    }

    /// Adds selected events in order.
    pub(crate) fn add(&mut self, events: &[Event]) {
        for event in events {
            let Some(index) = event.location.iteration else {
                continue;
            };
            let timing = self.timings.entry(index).or_default();
            match &event.body {
                EventBody::IterationStarted(_) => timing.start(event.timestamp),
                EventBody::IterationDone(_) => timing.end(event, false),
                EventBody::IterationFailed(_) => timing.end(event, true),
                EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => {
                    timing.attempts = timing.attempts.max(event.location.attempt + 1);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn finish(self, appends: usize, is_complete: bool) -> IterationTimings {
        IterationTimings {
            timings: self.timings,
            appends,
            is_complete,
        }
    }
}
