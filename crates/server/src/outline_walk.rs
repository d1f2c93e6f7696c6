//! Reads the outline of a run event by event: its log without the events of iterations.
//!
//! The cost is limited by [`EVENTS_MAX`], and does not depend on the number of iterations.

use model::event::Event;
use model::id::{ExecutionId, Seq};

use crate::Server;
use crate::error::Error;

/// Number of events read at a time.
const PAGE: usize = 2_000;
/// Maximum number of events that are read.
const EVENTS_MAX: usize = 50_000;

/// Where the reading of an outline ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutlineEnd {
    /// The last event that is included.
    pub(crate) seq: Seq,
    /// Whether that is the last event of the run.
    pub(crate) is_complete: bool,
}

impl Server {
    /// Calls a function with each event of the outline of a run, in order.
    pub(crate) async fn read_outline(
        &self,
        id: ExecutionId,
        mut on_event: impl FnMut(Event) + Send,
    ) -> Result<OutlineEnd, Error> {
        let reader = self.reader();
        let (mut position, mut event_count) = (Seq(0), 0);
        loop {
            let page = reader.outline_events(id, position, PAGE).await?;
            event_count += page.events.len();
            page.events.into_iter().for_each(&mut on_event);
            let (seq, is_complete) = match page.next {
                Some(next) if event_count < EVENTS_MAX => {
                    position = next;
                    continue;
                }
                Some(next) => (next, false),
                None => (page.seq, true),
            };
            return Ok(OutlineEnd { seq, is_complete });
        }
    }
}
