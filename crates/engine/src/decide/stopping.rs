//! Stopping: no more commands are issued, workers are notified, and the execution ends when all of them have reported
//! or the grace period is over.

use model::event::{EndStatus, EventBody, EventLocation, StopRequest, TimerPurpose, TimerSet};
use model::id::StepRunId;

use crate::decide::DecideError;
use crate::decide::decision_builder::DecisionBuilder;
use crate::decision::ExecutionMessage;
use crate::input::ControlRequest;
use crate::state::{PendingWait, StopReason};

impl DecisionBuilder<'_> {
    /// Notifies workers and children once, and ends the execution when no command is left. Returns true if it
    /// scheduled the final step.
    pub(super) fn advance_stop(&mut self) -> Result<bool, DecideError> {
        if self.state.commands.is_empty() {
            self.cancel_children(None);
            let reason = self.state.stop.as_ref().map(|stop| stop.reason);
            let final_step = self.net.playbook.executor.final_step.clone();
            return match (reason, final_step.filter(|_| !self.state.final_ran)) {
                (Some(StopReason::Cancelled), _) => self.finish_execution(EndStatus::Cancelled).map(|()| false),
                (Some(StopReason::Finalized(ending)), _) => self.finish_execution(ending).map(|()| false),
                (_, Some(step)) => {
                    self.schedule(&step, Vec::new(), true);
                    Ok(true)
                }
                (_, None) => self.finish_execution(EndStatus::Error).map(|()| false),
            };
        }
        let timed = self
            .state
            .timers
            .values()
            .any(|timer| timer.purpose == TimerPurpose::StopGrace);
        if !timed {
            self.cancel_children(None);
            let due = self.stamp.now.after(self.net.limits.stop_grace);
            let set = TimerSet {
                due,
                purpose: TimerPurpose::StopGrace,
            };
            self.emit(EventLocation::default(), EventBody::TimerSet(set));
            self.stop_commands(None);
        }
        Ok(false)
    }

    /// Stops all live commands, or those of one run.
    pub(super) fn stop_commands(&mut self, owner: Option<&StepRunId>) {
        let commands = self.state.commands.iter();
        let commands = commands.filter(|(_, command)| owner.is_none_or(|run| command.run == *run));
        self.commands_to_stop.extend(commands.map(|(seq, _)| *seq));
    }

    /// Cancels the children that the given run awaits, or all awaited children.
    pub(super) fn cancel_children(&mut self, owner: Option<&StepRunId>) {
        let stop = self.state.stop.as_ref();
        if stop.is_some_and(|stop| stop.spares_children) {
            return;
        }
        let runs = self.state.runs.iter();
        let runs = runs.filter(|(id, _)| owner.is_none_or(|only| only == *id));
        // Children requested after the stop are never started, so they need no cancellation.
        let stopped = self.state.stop.as_ref().map(|stop| stop.since);
        let was_started = |waiting: &PendingWait| stopped.is_none_or(|stopped| waiting.since < stopped);
        let waited = runs.flat_map(|(_, run)| {
            let waiting = |iteration: &Option<u64>| run.waits.get(iteration);
            let waits = move |iteration: &Option<u64>| waiting(iteration).is_some_and(was_started);
            run.children
                .iter()
                .filter(move |((iteration, _), _)| waits(iteration))
                .map(|(_, child)| child.execution)
        });
        let children: Vec<_> = waited.collect();
        for child in children {
            self.send(
                child,
                ExecutionMessage::Control(ControlRequest::Cancel(StopRequest {
                    reason: Some("the parent run ended".to_owned()),
                    ..StopRequest::default()
                })),
            );
        }
    }
}
