//! Lists results: bodies outside the log through the index, all matching results of a step through the log.

use model::event::{Event, RecordedResult};
use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use model::result_ref::ResultRef;
use store::ResultRow;
use wire::api::ReferenceEntry;

use crate::error::Error;
use crate::result_reader::{ResultAddress, ResultReader};

/// Maximum number of events per read.
const PAGE: usize = 1_000;

/// A page of a run's results, oldest first.
#[derive(Debug)]
pub struct ReferencePage {
    /// The results.
    pub entries: Vec<ReferenceEntry>,
    /// Start of the next page, if there may be one.
    pub next: Option<Seq>,
}

impl ReferencePage {
    /// Removes the results of events after this one, and the next page if it has only such results.
    pub(crate) fn retain_until(&mut self, until: Seq) {
        self.entries.retain(|entry| entry.seq <= until);
        self.next = self.next.filter(|next| *next < until);
    }
}

impl ResultReader {
    /// Lists the references of a run. If the address names a step, lists all its matching results, inline results
    /// included.
    pub async fn list_references(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
        limit: usize,
    ) -> Result<ReferencePage, Error> {
        if address.step.is_some() && address.selector.iteration.is_some() {
            let mut events = self.iteration_events(id, address).await?;
            events.retain(|event| event.seq > after);
            let has_more = events.len() > limit;
            events.truncate(limit);
            let next = events.last().map(|event| event.seq).filter(|_| has_more);
            let entries = events.iter().filter_map(entry_from_event).collect();
            return Ok(ReferencePage { entries, next });
        }
        if address.step.is_some() {
            return self.list_from_log(id, address, after, limit).await;
        }
        let rows = self.store.results(id).await?;
        let rows = rows.into_iter().filter(|row| row.seq > after);
        let mut entries: Vec<ReferenceEntry> = rows.take(limit + 1).map(entry_from_row).collect();
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().map(|entry| entry.seq).filter(|_| has_more);
        Ok(ReferencePage { entries, next })
    }

    async fn list_from_log(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        mut after: Seq,
        limit: usize,
    ) -> Result<ReferencePage, Error> {
        let mut entries = Vec::new();
        let has_iterations = !self.loop_runs(id, address).await?.is_empty();
        loop {
            let page = if has_iterations {
                self.store.events(id, after, PAGE).await?
            } else {
                self.store.outline(id, after, PAGE).await?
            };
            let Some(last) = page.last() else {
                return Ok(ReferencePage { entries, next: None });
            };
            after = last.seq;
            for event in page.iter().filter(|event| address.matches(event)) {
                entries.extend(entry_from_event(event));
                if entries.len() == limit {
                    let next = Some(event.seq);
                    return Ok(ReferencePage { entries, next });
                }
            }
        }
    }
}

/// The entry of a result that an event records.
fn entry_from_event(event: &Event) -> Option<ReferenceEntry> {
    let (bytes, reference) = match event.body.recorded_result()? {
        RecordedResult::TaskDone(ended) | RecordedResult::TaskFailed(ended) => {
            (ended.outcome.text().len(), ended.result_ref.as_deref())
        }
        RecordedResult::Attempt(ended) => (ended.outcome.text().len(), ended.result_ref.as_deref()),
        RecordedResult::Manifest(stored) => (0, Some(&*stored.result_ref)),
    };
    let location = &event.location;
    Some(ReferenceEntry {
        seq: event.seq,
        step: location.step.clone().unwrap_or_else(|| Name::from("")),
        run: location.run,
        task: location.task.clone(),
        visit: location.visit,
        iteration: location.iteration,
        page: location.page,
        attempt: location.attempt,
        status: event.status(),
        created_at: event.recorded_at,
        bytes: reference.map_or(bytes as u64, |reference| reference.meta.bytes),
        reference: reference.map(RawJson::from_serializable),
    })
}

/// The entry of a result in the index.
fn entry_from_row(row: ResultRow) -> ReferenceEntry {
    let reference: Option<ResultRef> = row.result_ref.parse_as().ok();
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
