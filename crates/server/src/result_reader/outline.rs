//! The outline of a run: all events except those of iterations, and for each loop its counts, failures and waits. Its
//! cost does not depend on the number of iterations.

use std::collections::BTreeMap;

use model::event::Event;
use model::id::{ExecutionId, Seq, StepRunId};
use store::LoopProgress;

use crate::error::Error;
use crate::loading;
use crate::result_reader::ResultReader;

/// Maximum number of failed or waiting iterations of a loop that are described.
const DESCRIBED_MAX: usize = 100;

/// A page of the outline of a run.
#[derive(Debug)]
pub struct ExecutionOutline {
    /// The last event of the run when the outline was read.
    pub seq: Seq,
    /// The loops; only on the first page.
    pub loops: Vec<LoopOutline>,
    /// Events that belong to no iteration, in order.
    pub events: Vec<Event>,
    /// Start of the next page, if there is one.
    pub next: Option<Seq>,
}

/// One run of a loop.
#[derive(Debug)]
pub struct LoopOutline {
    /// Number of ended iterations, by outcome.
    pub progress: LoopProgress,
    /// Number of iterations that started and have not ended.
    pub in_flight: u64,
    /// The events of the first hundred failed iterations, and the start events of a hundred waiting tasks.
    pub events: Vec<Event>,
}

impl ResultReader {
    /// Returns the outline of a run after an event; at most `limit` events.
    pub async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<ExecutionOutline, Error> {
        // Counts are read before the position, so that an event after the position is never counted.
        let loops = if after == Seq(0) {
            self.loop_outlines(id).await?
        } else {
            Vec::new()
        };
        let page = self.outline_events(id, after, limit).await?;
        Ok(ExecutionOutline { loops, ..page })
    }

    /// Returns the outline of a run after an event, without its loops.
    pub(crate) async fn outline_events(
        &self,
        id: ExecutionId,
        after: Seq,
        limit: usize,
    ) -> Result<ExecutionOutline, Error> {
        let row = self.store.execution(id).await?.ok_or(Error::NotFound(id))?;
        let seq = row.version;
        let mut events = self.store.outline(id, after, limit).await?;
        let last = events.last().map(|event| event.seq);
        let next = last.filter(|last| events.len() == limit && *last < seq);
        events.retain(|event| event.location.iteration.is_none() && event.seq <= seq);
        Ok(ExecutionOutline {
            seq,
            loops: Vec::new(),
            events,
            next,
        })
    }

    /// Returns the counts, failures and waits of each run of a loop.
    pub(crate) async fn loop_outlines(&self, id: ExecutionId) -> Result<Vec<LoopOutline>, Error> {
        let progress = self.store.loops(id).await?.into_iter();
        let mut loops: BTreeMap<StepRunId, LoopOutline> = BTreeMap::new();
        for progress in progress {
            let events = self.failure_events(id, &progress).await?;
            let entry = LoopOutline {
                progress,
                in_flight: 0,
                events,
            };
            loops.insert(entry.progress.run.clone(), entry);
        }
        self.add_live_loops(id, &mut loops).await?;
        Ok(loops.into_values().collect())
    }

    async fn failure_events(&self, id: ExecutionId, progress: &LoopProgress) -> Result<Vec<Event>, Error> {
        if progress.failed == 0 {
            return Ok(Vec::new());
        }
        let run = &progress.run;
        let failed = self.store.failed_iterations(id, run, DESCRIBED_MAX).await?;
        let mut events = Vec::new();
        for iterations in failed.chunk_by(|first, next| first + 1 == *next) {
            let range = iterations[0]..iterations[iterations.len() - 1] + 1;
            events.extend(self.store.iteration_events(id, run, range).await?);
        }
        events.sort_by_key(|event| event.seq);
        Ok(events)
    }

    /// Adds values that only the state of a live run contains.
    async fn add_live_loops(&self, id: ExecutionId, loops: &mut BTreeMap<StepRunId, LoopOutline>) -> Result<(), Error> {
        let row = self.store.execution(id).await?;
        if row.is_none_or(|row| row.status.is_terminal()) {
            return Ok(());
        }
        let Some(state) = loading::load_state(&*self.store, id).await? else {
            return Ok(());
        };
        for (run_id, run) in state.runs.iter() {
            let Some(progress) = &run.loop_ else { continue };
            let waits = run.waits.iter().filter(|(index, _)| index.is_some());
            let starts: Vec<Seq> = waits.map(|(_, wait)| wait.since).take(DESCRIBED_MAX).collect();
            let entry = loops.entry(run_id.clone()).or_insert_with(|| LoopOutline {
                progress: LoopProgress {
                    run: run_id.clone(),
                    succeeded: 0,
                    failed: 0,
                    retries: 0,
                },
                in_flight: 0,
                events: Vec::new(),
            });
            entry.in_flight = progress.live.len() as u64;
            entry.events.extend(self.store.events_at(id, &starts).await?);
        }
        Ok(())
    }
}
