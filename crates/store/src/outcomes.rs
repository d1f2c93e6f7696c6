//! Outcomes of iterations, collected from the appends of a log in order. They take a bounded amount of memory.

use std::collections::BTreeMap;
use std::ops::Range;

use model::event::{Event, EventBody, EventHead, EventKind};
use model::id::StepRunId;
use model::manifest::is_pipeline_outcome;

use crate::iterations::is_of_run;
use crate::rows::{IterationOutcomes, OutcomeRange};

/// The outcomes of this many iterations are read at once, however large they are.
const ITERATIONS_MIN: u64 = 64;

/// Approximate memory of an event in addition to its result.
const EVENT_BYTES: usize = 512;

/// Collects the last outcome of each iteration of a range. If it exceeds its size limit, it drops the later half of the
/// iterations; the caller reads them next.
pub(crate) struct OutcomeCollector<'a> {
    run: &'a StepRunId,
    range: OutcomeRange,
    bytes: usize,
    outcomes: BTreeMap<u64, Box<Event>>,
}

impl<'a> OutcomeCollector<'a> {
    pub(crate) fn new(run: &'a StepRunId, range: &OutcomeRange) -> Self {
        Self {
            run,
            range: range.clone(),
            bytes: 0,
            outcomes: BTreeMap::new(),
        }
    }

    /// The iterations that are collected.
    pub(crate) fn iterations(&self) -> &Range<u64> {
        &self.range.iterations
    }

    /// Whether an event may be an outcome that is collected.
    pub(crate) fn is_selected(&self, head: EventHead<'_>) -> bool {
        let range = &self.range;
        matches!(
            head.kind,
            EventKind::TaskDone | EventKind::TaskFailed | EventKind::ManifestUpdated
        ) && head.iteration.is_some_and(|index| range.iterations.contains(&index))
            && head.seq > range.after
            && head.seq <= range.until
            && is_of_run(head, self.run)
    }

    /// Adds events in order; ignores those outside the range.
    pub(crate) fn add(&mut self, events: Vec<Event>) {
        for event in events.into_iter().filter(is_pipeline_outcome) {
            let Some(index) = event.location.iteration else {
                continue;
            };
            if !self.range.iterations.contains(&index) {
                continue;
            }
            self.bytes += event_bytes(&event);
            if let Some(earlier) = self.outcomes.insert(index, Box::new(event)) {
                self.bytes -= event_bytes(&earlier);
            }
            self.drop_later_half();
        }
    }

    /// Drops the later half of the iterations if the outcomes exceed their size limit.
    fn drop_later_half(&mut self) {
        let Range { start, end } = self.range.iterations;
        if self.bytes <= self.range.bytes_max || end - start <= ITERATIONS_MIN {
            return;
        }
        let end = start + ((end - start) / 2).max(ITERATIONS_MIN);
        self.range.iterations = start..end;
        let later = self.outcomes.split_off(&end);
        self.bytes -= later.values().map(|event| event_bytes(event)).sum::<usize>();
    }

    pub(crate) fn finish(self) -> IterationOutcomes {
        IterationOutcomes {
            outcomes: self.outcomes,
            end: self.range.iterations.end,
        }
    }
}

/// The approximate memory of an event.
fn event_bytes(event: &Event) -> usize {
    let result = match &event.body {
        EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => ended.outcome.text().len(),
        _ => 0,
    };
    EVENT_BYTES + result
}
