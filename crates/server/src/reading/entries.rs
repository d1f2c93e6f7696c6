//! Results listed: those outside the log by their index, all that fit a place through the log.

use model::event::{Body, Event};
use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::result_ref::ResultRef;
use store::ResultRow;
use wire::api::ReferenceEntry;

use crate::error::Error;
use crate::reading::{Reader, ResultAddress};

/// How many events are read at once.
const PAGE: usize = 1_000;

/// Some of a run's results, oldest first.
#[derive(Debug)]
pub struct Listed {
    /// The results.
    pub entries: Vec<ReferenceEntry>,
    /// Where the next ones begin, if there may be more.
    pub next: Option<Seq>,
}

impl Reader {
    /// The references of a run; with a step, all of its results that fit, inline ones too.
    pub async fn list(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
        after: Seq,
        limit: usize,
    ) -> Result<Listed, Error> {
        if wanted.step.is_some() && wanted.place.iteration.is_some() {
            let mut events = self.events_of_iteration(id, wanted).await?;
            events.retain(|event| event.seq > after);
            let has_more = events.len() > limit;
            events.truncate(limit);
            let next = events.last().map(|event| event.seq).filter(|_| has_more);
            let entries = events.iter().filter_map(recorded).collect();
            return Ok(Listed { entries, next });
        }
        if wanted.step.is_some() {
            return self.through_the_log(id, wanted, after, limit).await;
        }
        let rows = self.store.results(id).await?;
        let rows = rows.into_iter().filter(|row| row.seq > after);
        let mut entries: Vec<ReferenceEntry> = rows.take(limit + 1).map(outside).collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().map(|entry| entry.seq).filter(|_| more);
        Ok(Listed { entries, next })
    }

    async fn through_the_log(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
        mut after: Seq,
        limit: usize,
    ) -> Result<Listed, Error> {
        let mut entries = Vec::new();
        let has_iterations = !self.loop_runs(id, wanted).await?.is_empty();
        loop {
            let page = if has_iterations {
                self.store.events(id, after, PAGE).await?
            } else {
                self.store.outline(id, after, PAGE).await?
            };
            let Some(last) = page.last() else {
                return Ok(Listed {
                    entries,
                    next: None,
                });
            };
            after = last.seq;
            for event in page.iter().filter(|event| wanted.fits(event)) {
                entries.extend(recorded(event));
                if entries.len() == limit {
                    let next = Some(event.seq);
                    return Ok(Listed { entries, next });
                }
            }
        }
    }
}

/// A result as its event records it.
fn recorded(event: &Event) -> Option<ReferenceEntry> {
    let (bytes, reference) = match &event.body {
        Body::TaskDone(ended) | Body::TaskFailed(ended) => {
            (ended.outcome.text().len(), ended.result_ref.as_deref())
        }
        Body::AttemptDone(ended) | Body::AttemptFailed(ended) => {
            (ended.outcome.text().len(), ended.result_ref.as_deref())
        }
        Body::ManifestUpdated(stored) => (0, Some(&*stored.result_ref)),
        _ => return None,
    };
    let at = &event.at;
    Some(ReferenceEntry {
        seq: event.seq,
        step: at.step.clone().unwrap_or_else(|| Name::from("")),
        run: at.run,
        task: at.task.clone(),
        visit: at.visit,
        iteration: at.iteration,
        page: at.page,
        attempt: at.attempt,
        status: event.status(),
        created_at: event.recorded_at,
        bytes: reference.map_or(bytes as u64, |reference| reference.meta.bytes),
        reference: reference.map(Raw::of),
    })
}

/// A result as the index has it.
fn outside(row: ResultRow) -> ReferenceEntry {
    let reference: Option<ResultRef> = row.result_ref.read().ok();
    ReferenceEntry {
        seq: row.seq,
        step: row.run.step,
        run: row.run.run,
        task: row.task,
        visit: row.visit,
        iteration: row.iteration,
        page: row.page,
        attempt: row.attempt,
        status: row.status,
        created_at: row.created_at,
        bytes: reference.map_or(0, |reference| reference.meta.bytes),
        reference: Some(row.result_ref),
    }
}
