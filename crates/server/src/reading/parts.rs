//! Parts: which events of which logs record the parts of a manifest, in order. Nothing of the parts is held.

use std::collections::{BTreeMap, VecDeque};

use model::event::{Body, Event, ReusedItems};
use model::id::{ExecutionId, Seq, StepRunId};
use model::manifest::{Rule, is_pipeline_outcome};
use roaring::RoaringTreemap;
use store::Store;

use crate::error::Error;
use crate::loading;

/// How many events are read at once.
const PAGE: usize = 1_000;

/// So many parts are read at once.
const BATCH: usize = 64;

/// Where the parts of a result are recorded, in order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    logs: Vec<ExecutionId>,
    /// Which log and which event there; none where nothing is recorded.
    places: Vec<Option<(u32, Seq)>>,
    /// The page of each, where they are pages.
    pages: Vec<i64>,
    /// What of the log of a loop is still to be read.
    scan: Option<Scan>,
}

/// The way through the log of a loop, which goes only as far as its results are asked for.
#[derive(Debug)]
struct Scan {
    execution: ExecutionId,
    run: Option<StepRunId>,
    /// The place in `logs`.
    log: u32,
    after: Seq,
    until: Seq,
    /// Whether an iteration that failed may have gone on in a later generation.
    was_retried: bool,
    /// Iterations whose outcome cannot change any more.
    settled: RoaringTreemap,
    /// Outcomes that were just read; the others are read again when they are wanted.
    recent: BTreeMap<Seq, Event>,
}

impl Parts {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of one part.
    pub(crate) fn place(&self, index: usize) -> Option<(ExecutionId, Seq)> {
        let (log, seq) = self.places.get(index).copied().flatten()?;
        let log = usize::try_from(log).ok()?;
        Some((self.logs[log], seq))
    }

    /// The events of the next parts from one on, in order.
    pub(crate) async fn events(
        &mut self,
        store: &dyn Store,
        from: usize,
    ) -> Result<VecDeque<Option<Event>>, Error> {
        let until = (from + BATCH).min(self.len());
        self.scan_for(store, from, until).await?;
        let places: Vec<_> = (from..until).map(|index| self.place(index)).collect();
        let mut found: BTreeMap<(ExecutionId, Seq), Event> = BTreeMap::new();
        if let Some(scan) = &mut self.scan {
            for (log, seq) in places.iter().flatten() {
                if *log == scan.execution
                    && let Some(event) = scan.recent.remove(seq)
                {
                    found.insert((*log, *seq), event);
                }
            }
        }
        for log in &self.logs {
            let is_wanted =
                |place: &&(ExecutionId, Seq)| place.0 == *log && !found.contains_key(*place);
            let wanted = places.iter().flatten().filter(is_wanted);
            let seqs: Vec<Seq> = wanted.map(|(_, seq)| *seq).collect();
            if seqs.is_empty() {
                continue;
            }
            let events = store.events_at(*log, &seqs).await?;
            found.extend(events.into_iter().map(|event| ((*log, event.seq), event)));
        }
        let events = places.into_iter();
        Ok(events.map(|place| found.remove(&place?)).collect())
    }

    /// The page that a part is, if it is one.
    pub(crate) fn page(&self, index: usize) -> Option<i64> {
        self.pages.get(index).copied()
    }

    /// The visits of a task, by page.
    pub(crate) async fn of_task(
        store: &dyn Store,
        execution: ExecutionId,
        rule: &Rule,
    ) -> Result<Self, Error> {
        if !rule.pages.is_empty() {
            return Ok(Self {
                logs: vec![execution],
                scan: None,
                pages: rule.pages.iter().map(|(page, _)| *page).collect(),
                places: rule.pages.iter().map(|(_, seq)| Some((0, *seq))).collect(),
            });
        }
        let mut by_page: BTreeMap<i64, Seq> = BTreeMap::new();
        let said = store.events_at(execution, &[rule.seq]).await?;
        let Some(at) = said.into_iter().next().map(|event| event.at) else {
            return Ok(Self::default());
        };
        let is_part = |event: &Event| {
            matches!(event.body, Body::TaskDone(_))
                && event.at.task == at.task
                && event.at.iteration == at.iteration
                && event.at.step_run_id() == at.step_run_id()
        };
        let after = Seq(rule.first.0.saturating_sub(1));
        each(store, execution, (after, rule.seq), |event| {
            if is_part(event) {
                let page = event.at.page.unwrap_or(event.at.visit.into());
                by_page.insert(page, event.seq);
            }
        })
        .await?;
        Ok(Self {
            logs: vec![execution],
            scan: None,
            pages: by_page.keys().copied().collect(),
            places: by_page.into_values().map(|seq| Some((0, seq))).collect(),
        })
    }

    /// The iterations of a loop, by index: each one's last outcome.
    pub(crate) async fn of_loop(
        store: &dyn Store,
        execution: ExecutionId,
        ends: (Seq, Seq),
    ) -> Result<Self, Error> {
        let (started, until) = ends;
        let said = store.events_at(execution, &[started]).await?;
        let Some(said) = said.into_iter().next() else {
            return Ok(Self::default());
        };
        let run = said.at.step_run_id();
        let Body::LoopStarted(begun) = said.body else {
            return Ok(Self::default());
        };
        let mut parts = Self {
            places: vec![None; usize::try_from(begun.total).unwrap_or(0)],
            ..Self::default()
        };
        let mut settled = RoaringTreemap::new();
        for items in loading::items_elsewhere(store, execution, begun.reused).await? {
            parts.fill(store, &items).await?;
            for (from, to) in &items.ranges {
                settled.insert_range(*from..(*to).min(begun.total));
            }
        }
        if begun.more {
            // A loop that claims its rows begins before it knows how many there are.
            let own = ReusedItems {
                execution_id: execution,
                started,
                until,
                ranges: vec![(0, u64::MAX)],
            };
            parts.fill(store, &own).await?;
            return Ok(parts);
        }
        let row = store.execution(execution).await?;
        parts.scan = Some(Scan {
            execution,
            run,
            log: u32::try_from(parts.logs.len()).unwrap_or(u32::MAX),
            after: started,
            until,
            was_retried: row.is_none_or(|row| row.generation > 1),
            settled,
            recent: BTreeMap::new(),
        });
        parts.logs.push(execution);
        Ok(parts)
    }

    /// Reads the log of a loop until it is known where the outcomes of these iterations are.
    async fn scan_for(
        &mut self,
        store: &dyn Store,
        from: usize,
        until: usize,
    ) -> Result<(), Error> {
        let Some(scan) = &mut self.scan else {
            return Ok(());
        };
        let wanted = (from as u64)..(until as u64);
        let is_settled = |scan: &Scan| {
            let count = scan.settled.range_cardinality(wanted.clone());
            count == wanted.end - wanted.start
        };
        while scan.after < scan.until && !is_settled(scan) {
            let page = store.events(scan.execution, scan.after, PAGE).await?;
            let Some(last) = page.last().map(|event| event.seq) else {
                break;
            };
            scan.after = last;
            scan.recent.clear();
            for event in page {
                let Some(index) = event.at.iteration.filter(|_| event.seq <= scan.until) else {
                    continue;
                };
                if event.at.step_run_id() != scan.run {
                    continue;
                }
                let is_end = match &event.body {
                    Body::IterationDone(_) => true,
                    Body::IterationFailed(_) => !scan.was_retried,
                    _ => false,
                };
                if is_end {
                    scan.settled.insert(index);
                }
                let place = usize::try_from(index).ok();
                let place = place.and_then(|place| self.places.get_mut(place));
                if let Some(place) = place.filter(|_| is_pipeline_outcome(&event)) {
                    *place = Some((scan.log, event.seq));
                    scan.recent.insert(event.seq, event);
                }
            }
        }
        Ok(())
    }

    /// Notes where these iterations are recorded.
    async fn fill(&mut self, store: &dyn Store, items: &ReusedItems) -> Result<(), Error> {
        let execution = items.execution_id;
        let log = u32::try_from(self.logs.len()).unwrap_or(u32::MAX);
        self.logs.push(execution);
        let started = store.events_at(execution, &[items.started]).await?;
        let run = started.first().and_then(|event| event.at.step_run_id());
        let is_meant = |index: u64| {
            let mut ranges = items.ranges.iter();
            ranges.any(|(from, to)| (*from..*to).contains(&index))
        };
        let places = &mut self.places;
        each(store, execution, (items.started, items.until), |event| {
            let index = event.at.iteration.filter(|index| is_meant(*index));
            let index = index.and_then(|index| usize::try_from(index).ok());
            if let Some(index) = index
                && is_pipeline_outcome(event)
                && event.at.step_run_id() == run
            {
                // A loop that claims its rows begins before it knows how many there are.
                if index >= places.len() {
                    places.resize(index + 1, None);
                }
                places[index] = Some((log, event.seq));
            }
        })
        .await
    }
}

/// Shows every event after one seq and up to another.
pub(crate) async fn each(
    store: &dyn Store,
    execution: ExecutionId,
    (mut after, until): (Seq, Seq),
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
