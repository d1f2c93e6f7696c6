//! Counts of the iterations of loops at an event, from all events up to it.

use std::collections::BTreeMap;

use model::event::{Event, EventBody};
use model::id::Name;
use model::playbook::Directive;
use roaring::RoaringTreemap;
use wire::api::GraphLoop;

/// Counts by step and run of the step.
#[derive(Debug, Default)]
pub(super) struct LoopCounts {
    loops: BTreeMap<(Name, u32), IterationSets>,
}

/// Iterations of one loop run, by progress.
#[derive(Debug, Default)]
struct IterationSets {
    succeeded: RoaringTreemap,
    failed: RoaringTreemap,
    in_flight: RoaringTreemap,
    retries: u64,
}

impl LoopCounts {
    /// Counts an event of an iteration. When the run is retried, its failed iterations continue.
    pub(super) fn count(&mut self, event: &Event) {
        if let EventBody::ExecutionRetried(_) = event.body {
            for sets in self.loops.values_mut() {
                sets.in_flight |= std::mem::take(&mut sets.failed);
            }
            return;
        }
        let location = &event.location;
        let (Some(step), Some(iteration)) = (&location.step, location.iteration) else {
            return;
        };
        let sets = self.loops.entry((step.clone(), location.run)).or_default();
        match &event.body {
            EventBody::IterationStarted(_) => {
                sets.in_flight.insert(iteration);
            }
            EventBody::IterationDone(_) => {
                sets.in_flight.remove(iteration);
                sets.succeeded.insert(iteration);
            }
            EventBody::IterationFailed(_) => {
                sets.in_flight.remove(iteration);
                sets.failed.insert(iteration);
            }
            EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => sets.retries += 1,
            _ => {}
        }
    }

    /// The counts.
    pub(super) fn into_loops(self) -> BTreeMap<(Name, u32), GraphLoop> {
        let loops = self.loops.into_iter().map(|(run, sets)| {
            let counts = GraphLoop {
                total: None,
                succeeded: sets.succeeded.len(),
                failed: sets.failed.len(),
                in_flight: sets.in_flight.len(),
                retries: sets.retries,
            };
            (run, counts)
        });
        loops.collect()
    }
}
