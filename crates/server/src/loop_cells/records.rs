//! The runs of loops, from the outline of a run.

use std::collections::BTreeMap;
use std::ops::Range;

use model::event::{Event, EventBody, ReusedPart};
use model::id::{Seq, StepRunId};
use model::time::Time;

/// What the outline says about a run of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoopRecord {
    /// Number of items so far.
    pub(crate) total: u64,
    /// Whether a cursor may claim more items.
    pub(crate) may_grow: bool,
    /// Whether all iterations ended.
    pub(crate) is_done: bool,
    /// The start of the loop.
    pub(crate) started_at: Time,
    /// Iterations whose results come from another execution.
    pub(crate) reused: Vec<Range<u64>>,
}

/// Collects the runs of loops from the events of an outline.
#[derive(Debug, Default)]
pub(crate) struct LoopRecords {
    /// The runs, by step and number.
    pub(crate) loops: BTreeMap<StepRunId, LoopRecord>,
    /// Reused iterations, by the event that lists them.
    reused: BTreeMap<Seq, Vec<Range<u64>>>,
}

impl LoopRecords {
    /// Adds the next event.
    pub(crate) fn fold(&mut self, event: &Event) {
        if let EventBody::StepReused(record) = &event.body
            && let ReusedPart::Iterations(iterations) = &record.part
        {
            let ranges = iterations.items.iter().flat_map(|set| &set.ranges);
            let ranges = ranges.map(|(from, to)| *from..*to).collect();
            self.reused.insert(event.seq, ranges);
            return;
        }
        let Some(run) = event.location.step_run_id() else {
            return;
        };
        match &event.body {
            EventBody::LoopStarted(started) => {
                let record = LoopRecord {
                    total: started.total,
                    may_grow: started.more,
                    is_done: false,
                    started_at: event.timestamp,
                    reused: started
                        .reused
                        .and_then(|seq| self.reused.remove(&seq))
                        .unwrap_or_default(),
                };
                self.loops.insert(run, record);
            }
            EventBody::FrameClaimed(frame) => {
                if let Some(record) = self.loops.get_mut(&run) {
                    record.total += frame.rows;
                    record.may_grow = frame.rows > 0;
                }
            }
            EventBody::LoopDone(_) => {
                if let Some(record) = self.loops.get_mut(&run) {
                    record.is_done = true;
                    record.may_grow = false;
                }
            }
            _ => {}
        }
    }
}
