//! Stopping: nothing more is issued, workers are told, and the run ends when all have answered or had their time.

use model::event::{At, Body, Ending, TimerPurpose, TimerSet};
use model::id::WorkerId;

use crate::decide::Undecided;
use crate::decide::turn::Turn;
use crate::decision::MessageBody;
use crate::state::StopReason;

impl Turn<'_> {
    /// Tells workers and children to stop, once; ends the run when no command is left.
    pub(super) fn go_on_stopping(&mut self) -> Result<(), Undecided> {
        if self.state.commands.is_empty() {
            self.cancel_children();
            let reason = self.state.stop.as_ref().map(|stop| stop.reason);
            return match reason {
                Some(StopReason::Cancelled) => self.finish(Ending::Cancelled),
                _ => self.finish(Ending::Error),
            };
        }
        let timed = self
            .state
            .timers
            .values()
            .any(|timer| timer.purpose == TimerPurpose::StopGrace);
        if !timed {
            self.cancel_children();
            let due = self.stamp.now.after(self.net.limits.stop_grace);
            let set = TimerSet {
                due,
                purpose: TimerPurpose::StopGrace,
            };
            self.emit(At::default(), Body::TimerSet(set));
            self.tell_holders();
        }
        Ok(())
    }

    /// The holders of every live command should stop.
    fn tell_holders(&mut self) {
        let unknown = WorkerId("".into());
        let holders = self.state.commands.iter().map(|(seq, command)| {
            let holder = command
                .claimed
                .as_ref()
                .map_or(unknown.clone(), |(worker, _)| worker.clone());
            (*seq, holder)
        });
        self.stops.extend(holders);
    }

    /// Children that are waited for end with their parent.
    fn cancel_children(&mut self) {
        let runs = self.state.runs.values();
        let waited = runs.flat_map(|run| {
            let waits = |iteration: &Option<u64>| run.waits.contains_key(iteration);
            run.children
                .iter()
                .filter(move |((iteration, _), _)| waits(iteration))
                .map(|(_, child)| child.execution)
        });
        let children: Vec<_> = waited.collect();
        for child in children {
            self.send(
                child,
                MessageBody::Cancel {
                    reason: Some("its parent ended".to_owned()),
                },
            );
        }
    }
}
