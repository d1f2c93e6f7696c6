//! Finds the events that record the parts of a manifest, in order, without loading the parts.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use model::event::{Event, EventBody, ReusedIterationSet};
use model::id::{ExecutionId, Seq, StepRunId};
use model::manifest::ManifestRule;
use store::{OutcomeRange, Store};

use crate::error::Error;
use crate::loading;

/// Maximum number of events per read.
const PAGE: usize = 1_000;

/// Maximum number of parts per read.
pub(crate) const PARTS_AT_ONCE: usize = 2_048;

/// Maximum number of bytes of these parts; a few larger parts may exceed it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of pages per read.
const PAGES_AT_ONCE: usize = 128;

/// Where the parts of a result are recorded, in order.
#[derive(Debug)]
pub(crate) enum PartIndex {
    /// The pages of a task.
    Pages {
        /// The log that records them.
        log: ExecutionId,
        /// The number of each page and its event.
        pages: Vec<(i64, Seq)>,
    },
    /// The iterations of a loop.
    Iterations {
        /// The number of iterations.
        total: usize,
        /// The logs that record them; if two logs record the same iteration, the later log counts.
        logs: Vec<IterationLog>,
    },
}

/// The iterations of a loop that one log records.
#[derive(Debug)]
pub(crate) struct IterationLog {
    execution: ExecutionId,
    run: StepRunId,
    /// The `loop.started` event.
    started_seq: Seq,
    /// The last event that counts.
    last_seq: Seq,
    ranges: Vec<(u64, u64)>,
}

impl PartIndex {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pages { pages, .. } => pages.len(),
            Self::Iterations { total, .. } => *total,
        }
    }

    /// Returns the events of the parts from this one on, in order; at most `count`.
    pub(crate) async fn load_events(
        &self,
        store: &dyn Store,
        from: usize,
        count: usize,
    ) -> Result<VecDeque<Option<Box<Event>>>, Error> {
        let until = (from + count).min(self.len());
        match self {
            Self::Pages { log, pages } => {
                let pages = &pages[from..until.min(from + PAGES_AT_ONCE)];
                let seqs: Vec<Seq> = pages.iter().map(|(_, seq)| *seq).collect();
                let events = store.events_at(*log, &seqs).await?.into_iter();
                let mut events_by_seq: BTreeMap<Seq, Box<Event>> =
                    events.map(|event| (event.seq, Box::new(event))).collect();
                Ok(seqs.iter().map(|seq| events_by_seq.remove(seq)).collect())
            }
            Self::Iterations { logs, .. } => {
                let mut events_by_seq = BTreeMap::new();
                let mut missing = from as u64..until as u64;
                for log in logs {
                    let end = log.find_outcomes(store, &missing, &mut events_by_seq).await?;
                    missing.end = missing.end.min(end);
                }
                Ok(missing.map(|index| events_by_seq.remove(&index)).collect())
            }
        }
    }

    /// The page number of a part, if it is a page.
    pub(crate) fn page(&self, index: usize) -> Option<i64> {
        match self {
            Self::Pages { pages, .. } => pages.get(index).map(|(page, _)| *page),
            Self::Iterations { .. } => None,
        }
    }

    /// No parts.
    pub(crate) fn empty() -> Self {
        Self::Iterations {
            total: 0,
            logs: Vec::new(),
        }
    }

    /// The visits of a task, by page.
    pub(crate) async fn from_task(
        store: &dyn Store,
        execution: ExecutionId,
        rule: &ManifestRule,
    ) -> Result<Self, Error> {
        if !rule.pages.is_empty() {
            return Ok(Self::Pages {
                log: execution,
                pages: rule.pages.clone(),
            });
        }
        let mut by_page: BTreeMap<i64, Seq> = BTreeMap::new();
        let manifest_events = store.events_at(execution, &[rule.seq]).await?;
        let Some(location) = manifest_events.into_iter().next().map(|event| event.location) else {
            return Ok(Self::empty());
        };
        let is_part = |event: &Event| {
            matches!(event.body, EventBody::TaskDone(_))
                && event.location.task == location.task
                && event.location.iteration == location.iteration
                && event.location.step_run_id() == location.step_run_id()
        };
        let mut add = |event: &Event| {
            if is_part(event) {
                let page = event.location.page.unwrap_or(event.location.visit.into());
                by_page.insert(page, event.seq);
            }
        };
        let after = Seq(rule.first.0.saturating_sub(1));
        match (location.iteration, location.step_run_id()) {
            (Some(index), Some(run)) => {
                let events = store.iteration_events(execution, &run, index..index + 1);
                let events = events.await?.into_iter();
                let is_within = |event: &Event| event.seq > after && event.seq <= rule.seq;
                events.filter(is_within).for_each(|event| add(&event));
            }
            _ => for_each_event(store, execution, after, rule.seq, add).await?,
        }
        Ok(Self::Pages {
            log: execution,
            pages: by_page.into_iter().collect(),
        })
    }

    /// The iterations of a loop, by index: the last outcome of each.
    pub(crate) async fn from_loop(
        store: &dyn Store,
        execution: ExecutionId,
        started: Seq,
        until: Seq,
    ) -> Result<Self, Error> {
        let start_events = store.events_at(execution, &[started]).await?;
        let Some(EventBody::LoopStarted(loop_started)) = start_events.into_iter().next().map(|event| event.body) else {
            return Ok(Self::empty());
        };
        let own_iterations = ReusedIterationSet {
            execution_id: execution,
            started,
            until,
            ranges: vec![(0, u64::MAX)],
        };
        let mut logs = Vec::new();
        let mut total = loop_started.total;
        for items in loading::reused_iterations(store, execution, loop_started.reused).await? {
            logs.extend(IterationLog::find(store, items).await?);
        }
        logs.extend(IterationLog::find(store, own_iterations).await?);
        if loop_started.more {
            // A cursor loop starts before the number of its rows is known.
            for log in &logs {
                let count = store.iteration_count(log.execution, &log.run).await?;
                total = total.max(count);
            }
        }
        Ok(Self::Iterations {
            total: usize::try_from(total).unwrap_or(usize::MAX),
            logs,
        })
    }
}

impl IterationLog {
    /// The log that records these iterations.
    async fn find(store: &dyn Store, items: ReusedIterationSet) -> Result<Option<Self>, Error> {
        let events = store.events_at(items.execution_id, &[items.started]).await?;
        let run = events.first().and_then(|event| event.location.step_run_id());
        Ok(run.map(|run| Self {
            execution: items.execution_id,
            run,
            started_seq: items.started,
            last_seq: items.until,
            ranges: items.ranges,
        }))
    }

    /// Adds the last outcome of each of these iterations that the log records; returns the end of the range that was
    /// read.
    async fn find_outcomes(
        &self,
        store: &dyn Store,
        indices: &Range<u64>,
        outcome_events: &mut BTreeMap<u64, Box<Event>>,
    ) -> Result<u64, Error> {
        let overlaps = |(from, to): &(u64, u64)| *from < indices.end && indices.start < *to;
        if !self.ranges.iter().any(overlaps) {
            return Ok(indices.end);
        }
        let is_covered = |index: u64| {
            let mut ranges = self.ranges.iter();
            ranges.any(|(from, to)| (*from..*to).contains(&index))
        };
        let range = OutcomeRange {
            iterations: indices.clone(),
            after: self.started_seq,
            until: self.last_seq,
            bytes_max: BATCH_BYTES,
        };
        let read = store.iteration_outcomes(self.execution, &self.run, &range);
        let read = read.await?;
        let outcomes = read.outcomes.into_iter();
        outcome_events.extend(outcomes.filter(|(index, _)| is_covered(*index)));
        Ok(read.end)
    }
}

/// Calls a function with each event after one position, up to another.
pub(crate) async fn for_each_event(
    store: &dyn Store,
    execution: ExecutionId,
    mut after: Seq,
    until: Seq,
    mut show: impl FnMut(&Event),
) -> Result<(), Error> {
    while after < until {
        // Reading part of a log row costs as much as reading the row, so the limit is exact.
        let limit = usize::try_from(until.0 - after.0).unwrap_or(PAGE);
        let page = store.events(execution, after, limit.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        page.iter().filter(|event| event.seq <= until).for_each(&mut show);
    }
    Ok(())
}

/// Calls a function with each event of a run except those of iterations.
pub(crate) async fn for_each_outline_event(
    store: &dyn Store,
    execution: ExecutionId,
    mut show: impl FnMut(&Event),
) -> Result<(), Error> {
    let mut after = Seq(0);
    loop {
        let page = store.outline(execution, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.seq;
        let is_plain = |event: &&Event| event.location.iteration.is_none();
        page.iter().filter(is_plain).for_each(&mut show);
    }
}
