//! Searches the log of a run for events of some types, of a step, of a task or of an iteration.
//!
//! Without a filter, a page costs its number of events. With a filter, a search reads at most [`SCANNED_EVENTS_MAX`] events
//! and continues with the next page. The events of an iteration are found through the index of iterations.

mod iteration_ranges;

use model::event::{Event, EventKind};
use model::id::{ExecutionId, Name, Seq};

use crate::Server;
use crate::error::Error;

/// Maximum number of events that a search reads.
const SCANNED_EVENTS_MAX: usize = 20_000;
/// Number of events read at a time by a search.
const PAGE: usize = 1_000;

/// Which events to find.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFilter {
    /// Events of one of these kinds; empty for all.
    pub(crate) kinds: Vec<EventKind>,
    pub(crate) step: Option<Name>,
    pub(crate) task: Option<Name>,
    /// An iteration of the step.
    pub(crate) iteration: Option<u64>,
}

/// A page of matching events.
#[derive(Debug)]
pub(crate) struct EventSearchPage {
    pub(crate) events: Vec<Event>,
    /// Where the search continues, if it is not finished.
    pub(crate) next_after: Option<Seq>,
}

/// The part of the log that is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchRange {
    /// The event before the first one.
    pub(crate) after: Seq,
    /// The last event.
    pub(crate) until: Seq,
}

impl EventFilter {
    fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.step.is_none() && self.task.is_none() && self.iteration.is_none()
    }

    fn matches(&self, event: &Event) -> bool {
        let location = &event.location;
        (self.kinds.is_empty() || self.kinds.contains(&event.kind()))
            && (self.step.is_none() || self.step == location.step)
            && (self.task.is_none() || self.task == location.task)
            && (self.iteration.is_none() || self.iteration == location.iteration)
    }
}

impl Server {
    /// Finds at most `limit` events of a part of a log.
    pub(crate) async fn find_events(
        &self,
        id: ExecutionId,
        filter: &EventFilter,
        range: SearchRange,
        limit: usize,
    ) -> Result<EventSearchPage, Error> {
        if let (Some(step), Some(iteration)) = (&filter.step, filter.iteration) {
            let ranges = iteration_ranges::find_ranges(self, id, step, iteration).await?;
            let mut events = Vec::new();
            for part in ranges {
                let part = SearchRange {
                    after: part.after.max(range.after),
                    until: part.until.min(range.until),
                };
                let page = self.scan_events(id, filter, part, limit - events.len()).await?;
                events.extend(page.events);
                if events.len() == limit {
                    let next_after = events.last().map(|event: &Event| event.seq);
                    return Ok(EventSearchPage { events, next_after });
                }
            }
            return Ok(EventSearchPage {
                events,
                next_after: None,
            });
        }
        self.scan_events(id, filter, range, limit).await
    }

    async fn scan_events(
        &self,
        id: ExecutionId,
        filter: &EventFilter,
        range: SearchRange,
        limit: usize,
    ) -> Result<EventSearchPage, Error> {
        let SearchRange { mut after, until } = range;
        let page_max = if filter.is_empty() { limit } else { PAGE };
        let mut scanned = 0;
        let mut events = Vec::new();
        while after < until && scanned < SCANNED_EVENTS_MAX {
            let left = usize::try_from(until.0 - after.0).unwrap_or(usize::MAX);
            let page = self.shared.store.events(id, after, page_max.min(left)).await?;
            let Some(last) = page.last().map(|event| event.seq) else {
                break;
            };
            scanned += page.len();
            for event in page.into_iter().filter(|event| filter.matches(event)) {
                after = event.seq;
                events.push(event);
                if events.len() == limit {
                    let next_after = (after < until).then_some(after);
                    return Ok(EventSearchPage { events, next_after });
                }
            }
            after = last;
        }
        let next_after = (after < until).then_some(after);
        Ok(EventSearchPage { events, next_after })
    }
}
