//! Loop iterations, computed from the log on each read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::event::{Event, EventHead};
use model::id::{Name, Seq, StepRunId};

use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings, TimingCollector};
use crate::iterations::{
    IterationDelta, ProgressChange, ProgressCount, block_indices, is_indexed, is_of_iterations, is_of_run,
};
use crate::outcomes::OutcomeCollector;
use crate::rows::{IterationOutcomes, LoopProgress, LoopTask, OutcomeRange};

/// The progress of a loop run, as the table `loop_progress` has it.
#[derive(Debug, Default)]
struct ProgressRow {
    succeeded: u64,
    failed: u64,
    retries: u64,
    /// Failures before this event belong to an earlier generation.
    failed_since: Seq,
    /// Whether the counted failures belong to an earlier generation.
    is_stale: bool,
}

impl ProgressRow {
    fn apply(&mut self, count: &ProgressCount) {
        if self.is_stale {
            self.failed = 0;
            self.failed_since = count.seq;
            self.is_stale = false;
        }
        self.succeeded += count.succeeded;
        self.failed += count.failed;
        self.retries += count.retries;
    }

    fn into_progress(self, run: StepRunId) -> LoopProgress {
        LoopProgress {
            run,
            succeeded: self.succeeded,
            failed: self.failed,
            retries: self.retries,
        }
    }
}

pub(super) fn loops(log: &[Event]) -> Vec<LoopProgress> {
    let rows = progress_rows(log).into_iter();
    rows.map(|(run, row)| row.into_progress(run)).collect()
}

pub(super) fn iteration_events(log: &[Event], run: &StepRunId, iterations: &Range<u64>) -> Vec<Event> {
    let events = log.iter();
    let iteration_events = events.filter(|event| is_of_iterations(EventHead::from_event(event), run, iterations));
    iteration_events.cloned().collect()
}

pub(super) fn iteration_outcomes(log: &[Event], run: &StepRunId, range: &OutcomeRange) -> IterationOutcomes {
    let mut collector = OutcomeCollector::new(run, range);
    for event in log {
        if collector.is_selected(EventHead::from_event(event)) {
            collector.add(vec![event.clone()]);
        }
    }
    collector.finish()
}

pub(super) fn loop_task(log: &[Event], step: &Name, run: Option<u32>, task: &Name) -> Option<LoopTask> {
    let ends = IterationDelta::from_events(log).tasks.into_iter();
    let ends = ends.filter(|ends| ends.run.step == *step && ends.task == *task);
    let ends = ends.filter(|ends| run.is_none_or(|run| ends.run.run == run));
    let latest = ends.max_by_key(|ends| ends.run.run)?;
    Some(LoopTask {
        run: latest.run.run,
        succeeded: latest.succeeded,
        failed: latest.failed,
    })
}

pub(super) fn failed_iterations(log: &[Event], run: &StepRunId, limit: usize) -> Vec<u64> {
    let rows = progress_rows(log);
    let since = rows.get(run).map(|row| row.failed_since);
    let current = log.iter().filter(|event| Some(event.seq) >= since);
    let current: Vec<Event> = current.cloned().collect();
    let blocks = IterationDelta::from_events(&current).blocks.into_iter();
    let blocks = blocks.filter(|block| block.run == *run);
    let failed: BTreeSet<u64> = blocks
        .flat_map(|block| block_indices(block.block, block.failed))
        .collect();
    failed.into_iter().take(limit).collect()
}

pub(super) fn iteration_count(log: &[Event], run: &StepRunId) -> u64 {
    let recorded = log.iter().filter(|event| {
        let head = EventHead::from_event(event);
        is_indexed(head) && is_of_run(head, run)
    });
    let indices = recorded.filter_map(|event| event.location.iteration);
    indices.max().map_or(0, |index| index + 1)
}

pub(super) fn iteration_rows(log: &[Event], run: &StepRunId, query: &IterationRowQuery) -> Vec<IterationRow> {
    let progress = progress_rows(log);
    let failed_since = progress.get(run).map_or(Seq(0), |row| row.failed_since);
    let mut rows: Vec<IterationRow> = Vec::new();
    // Each event is an append of its own.
    for event in log {
        let blocks = IterationDelta::from_events(std::slice::from_ref(event))
            .blocks
            .into_iter();
        rows.extend(blocks.filter(|block| block.run == *run).map(|block| IterationRow {
            block: block.block,
            seq: block.seq,
            recorded: block.iterations,
            failed: if block.seq >= failed_since { block.failed } else { 0 },
        }));
    }
    rows.retain(|row| (row.block, row.seq) > query.after && row.block <= query.last_block);
    rows.retain(|row| !query.is_failed_only || row.failed != 0);
    rows.sort_by_key(|row| (row.block, row.seq));
    rows.truncate(query.limit);
    rows
}

pub(super) fn iteration_timings(log: &[Event], run: &StepRunId, iterations: &Range<u64>) -> IterationTimings {
    let mut collector = TimingCollector::new(run, iterations);
    for event in log {
        if collector.is_selected(EventHead::from_event(event)) {
            collector.add(std::slice::from_ref(event));
        }
    }
    collector.finish(1, true)
}

fn progress_rows(log: &[Event]) -> BTreeMap<StepRunId, ProgressRow> {
    let mut rows: BTreeMap<StepRunId, ProgressRow> = BTreeMap::new();
    for change in IterationDelta::from_events(log).progress {
        match change {
            ProgressChange::NewGeneration => {
                for row in rows.values_mut() {
                    row.is_stale = true;
                }
            }
            ProgressChange::Count(count) => {
                rows.entry(count.run.clone()).or_default().apply(&count);
            }
        }
    }
    rows
}
