//! Parts: which events of which logs record the parts of a manifest, in order. Nothing of the parts is held.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use model::event::{Event, EventBody, ReusedIterationSet};
use model::id::{ExecutionId, Seq, StepRunId};
use model::manifest::ManifestRule;
use store::{OutcomeRange, Store};

use crate::error::Error;
use crate::loading;

/// How many events are read at once.
const PAGE: usize = 1_000;

/// At most this many parts are read at once.
pub(crate) const PARTS_AT_ONCE: usize = 2_048;

/// At most this many bytes of them are held, unless a few are larger.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// At most this many pages are read at once.
const PAGES_AT_ONCE: usize = 128;

/// Where the parts of a result are recorded, in order.
#[derive(Debug)]
pub(crate) enum PartIndex {
    /// The pages of a task.
    Pages {
        /// The log that records them.
        log: ExecutionId,
        /// The number of each page, and its event.
        pages: Vec<(i64, Seq)>,
    },
    /// The iterations of a loop.
    Iterations {
        /// How many there are.
        total: usize,
        /// The logs that record them; of two that record the same iteration, the later one counts.
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

    /// The events of the next parts from one on, in order; at most `count` of them.
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
                let mut found: BTreeMap<Seq, Box<Event>> =
                    events.map(|event| (event.seq, Box::new(event))).collect();
                Ok(seqs.iter().map(|seq| found.remove(seq)).collect())
            }
            Self::Iterations { logs, .. } => {
                let mut found = BTreeMap::new();
                let mut wanted = from as u64..until as u64;
                for log in logs {
                    let end = log.find_outcomes(store, &wanted, &mut found).await?;
                    wanted.end = wanted.end.min(end);
                }
                Ok(wanted.map(|index| found.remove(&index)).collect())
            }
        }
    }

    /// The page that a part is, if it is one.
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
        let said = store.events_at(execution, &[rule.seq]).await?;
        let Some(at) = said.into_iter().next().map(|event| event.location) else {
            return Ok(Self::empty());
        };
        let is_part = |event: &Event| {
            matches!(event.body, EventBody::TaskDone(_))
                && event.location.task == at.task
                && event.location.iteration == at.iteration
                && event.location.step_run_id() == at.step_run_id()
        };
        let mut add = |event: &Event| {
            if is_part(event) {
                let page = event.location.page.unwrap_or(event.location.visit.into());
                by_page.insert(page, event.seq);
            }
        };
        let after = Seq(rule.first.0.saturating_sub(1));
        match (at.iteration, at.step_run_id()) {
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

    /// The iterations of a loop, by index: each one's last outcome.
    pub(crate) async fn from_loop(
        store: &dyn Store,
        execution: ExecutionId,
        started: Seq,
        until: Seq,
    ) -> Result<Self, Error> {
        let said = store.events_at(execution, &[started]).await?;
        let Some(EventBody::LoopStarted(begun)) = said.into_iter().next().map(|event| event.body)
        else {
            return Ok(Self::empty());
        };
        let own = ReusedIterationSet {
            execution_id: execution,
            started,
            until,
            ranges: vec![(0, u64::MAX)],
        };
        let mut logs = Vec::new();
        let mut total = begun.total;
        for items in loading::reused_iterations(store, execution, begun.reused).await? {
            logs.extend(IterationLog::find(store, items).await?);
        }
        logs.extend(IterationLog::find(store, own).await?);
        if begun.more {
            // A loop that claims its rows begins before it knows how many there are.
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
        let events = store
            .events_at(items.execution_id, &[items.started])
            .await?;
        let run = events
            .first()
            .and_then(|event| event.location.step_run_id());
        Ok(run.map(|run| Self {
            execution: items.execution_id,
            run,
            started_seq: items.started,
            last_seq: items.until,
            ranges: items.ranges,
        }))
    }

    /// Adds the last outcome of each of these iterations that the log records; answers the end of those that were read.
    async fn find_outcomes(
        &self,
        store: &dyn Store,
        wanted: &Range<u64>,
        found: &mut BTreeMap<u64, Box<Event>>,
    ) -> Result<u64, Error> {
        let overlaps = |(from, to): &(u64, u64)| *from < wanted.end && wanted.start < *to;
        if !self.ranges.iter().any(overlaps) {
            return Ok(wanted.end);
        }
        let is_meant = |index: u64| {
            let mut ranges = self.ranges.iter();
            ranges.any(|(from, to)| (*from..*to).contains(&index))
        };
        let range = OutcomeRange {
            iterations: wanted.clone(),
            after: self.started_seq,
            until: self.last_seq,
            bytes_max: BATCH_BYTES,
        };
        let read = store.iteration_outcomes(self.execution, &self.run, &range);
        let read = read.await?;
        let outcomes = read.outcomes.into_iter();
        found.extend(outcomes.filter(|(index, _)| is_meant(*index)));
        Ok(read.end)
    }
}

/// Shows every event after one seq and up to another.
pub(crate) async fn for_each_event(
    store: &dyn Store,
    execution: ExecutionId,
    mut after: Seq,
    until: Seq,
    mut show: impl FnMut(&Event),
) -> Result<(), Error> {
    while after < until {
        // A part of a log row costs as much to read as the row, so no more is asked for than is needed.
        let wanted = usize::try_from(until.0 - after.0).unwrap_or(PAGE);
        let page = store.events(execution, after, wanted.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        page.iter()
            .filter(|event| event.seq <= until)
            .for_each(&mut show);
    }
    Ok(())
}

/// Shows every event of a run but those of iterations.
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
