//! Events as messages of streams: rendered once, and shared by all streams of a run.
//!
//! Commits are rendered by the first stream that sends them. A stream that is behind reads pages of the log; full pages never
//! change, so the latest of them are cached. Streams copy no message: they send slices of the shared bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use model::event::Event;
use model::id::{ExecutionId, Seq};
use store::Store;
use tokio::sync::OnceCell;

use crate::api::sse::render_message;

/// Number of events of a page. The first event of a page follows a multiple of this number.
pub(crate) const PAGE: u64 = 500;
/// Maximum number of cached pages.
const PAGES_MAX: usize = 32;
/// Larger pages are not cached.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The messages of consecutive events.
#[derive(Debug, Default)]
pub(crate) struct RenderedEvents {
    messages: Bytes,
    /// Each event, and where its message ends.
    ends: Vec<(Seq, usize)>,
}

impl RenderedEvents {
    /// Renders events that follow each other.
    pub(crate) fn render(events: &[Event]) -> Self {
        let mut messages = BytesMut::new();
        let ends = events.iter().map(|event| {
            let seq = event.seq.to_string();
            let message = render_message(Some(&seq), event.kind().name(), event.to_raw().text());
            messages.extend_from_slice(&message);
            (event.seq, messages.len())
        });
        let ends = ends.collect();
        Self {
            messages: messages.freeze(),
            ends,
        }
    }

    /// The messages of the events after a sequence number, and the last of these events; `None` if there is none.
    pub(crate) fn after(&self, seq: Seq) -> Option<(Seq, Bytes)> {
        let (last, _) = self.ends.last().filter(|(last, _)| *last > seq)?;
        let skipped = self.ends.iter().rev().find(|(skipped, _)| *skipped <= seq);
        let start = skipped.map_or(0, |(_, end)| *end);
        Some((*last, self.messages.slice(start..)))
    }

    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

type PageKey = (ExecutionId, u64);
type PageCell = Arc<OnceCell<Arc<RenderedEvents>>>;

/// The latest full pages that streams have read.
#[derive(Default)]
pub(crate) struct EventPages {
    cells: Mutex<VecDeque<(PageKey, PageCell)>>,
}

impl EventPages {
    /// Reads the page that contains the event after `seq`, of a log that has at least `version` events. If several streams need
    /// a full page at a time, one of them reads it.
    pub(crate) async fn read(
        &self,
        store: &dyn Store,
        id: ExecutionId,
        seq: Seq,
        version: Seq,
    ) -> Result<Arc<RenderedEvents>, store::Error> {
        let first = seq.0 / PAGE * PAGE;
        if version.0 < first.saturating_add(PAGE) {
            return read_page(store, id, seq).await;
        }
        let cell = self.cell((id, first));
        let page = cell.get_or_try_init(|| read_page(store, id, Seq(first))).await?;
        if page.messages.len() > PAGE_BYTES_MAX {
            self.forget((id, first));
        }
        Ok(Arc::clone(page))
    }

    fn cell(&self, key: PageKey) -> PageCell {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = cells.iter().find(|(cached, _)| *cached == key) {
            return Arc::clone(cell);
        }
        let cell = PageCell::default();
        cells.push_back((key, Arc::clone(&cell)));
        if cells.len() > PAGES_MAX {
            cells.pop_front();
        }
        cell
    }

    fn forget(&self, key: PageKey) {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|(cached, _)| *cached != key);
    }
}

async fn read_page(store: &dyn Store, id: ExecutionId, after: Seq) -> Result<Arc<RenderedEvents>, store::Error> {
    let limit = usize::try_from(PAGE).unwrap_or(usize::MAX);
    let events = store.events(id, after, limit).await?;
    Ok(Arc::new(RenderedEvents::render(&events)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_after_an_event_are_a_slice() {
        let rendered = RenderedEvents {
            messages: Bytes::from_static(b"aabbb"),
            ends: vec![(Seq(7), 2), (Seq(8), 5)],
        };
        assert_eq!(rendered.after(Seq(6)), Some((Seq(8), Bytes::from_static(b"aabbb"))));
        assert_eq!(rendered.after(Seq(7)), Some((Seq(8), Bytes::from_static(b"bbb"))));
        assert_eq!(rendered.after(Seq(8)), None);
        assert_eq!(RenderedEvents::default().after(Seq(0)), None);
    }

    #[test]
    fn a_bounded_number_of_pages_is_cached() {
        let pages = EventPages::default();
        let first = pages.cell((ExecutionId(1), 0));
        assert!(Arc::ptr_eq(&first, &pages.cell((ExecutionId(1), 0))));
        for page in 1..=PAGES_MAX as u64 {
            pages.cell((ExecutionId(1), page * PAGE));
        }
        assert!(!Arc::ptr_eq(&first, &pages.cell((ExecutionId(1), 0))));
        assert_eq!(pages.cells.lock().unwrap().len(), PAGES_MAX);
    }
}
