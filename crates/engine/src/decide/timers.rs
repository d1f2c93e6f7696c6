//! Timers: handles due timers and timeouts.

use model::event::{EventBody, FailurePayload, TimerFired, TimerPurpose, TimerSet};
use model::id::{Seq, StepRunId};
use model::outcome::{ErrorKind, TaskError};
use model::time::Time;

use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decide::{DecideError, Refusal};

impl DecisionBuilder<'_> {
    /// Handles a due timer. Refuses a timer that is not active, so that it fires exactly once.
    pub(super) fn on_timer_due(&mut self, timer: Seq) -> Result<(), DecideError> {
        let Some(live) = self.state.timers.get(&timer).cloned() else {
            return Err(Refusal::NoTimer.into());
        };
        if live.due > self.stamp.now {
            return Err(Refusal::NoTimer.into());
        }
        self.set_cause(timer);
        let location = live
            .run
            .as_ref()
            .map(run_location)
            .unwrap_or_default()
            .with_iteration(live.iteration);
        let seq = self.emit(location, EventBody::TimerFired(TimerFired { timer }));
        self.set_cause(seq);
        match (live.purpose, live.run) {
            (TimerPurpose::StepTimeout, Some(run)) => self.time_out_step(&run),
            (TimerPurpose::StopGrace, _) => self.withdraw_all_commands(),
            _ => {}
        }
        Ok(())
    }

    /// Sets a timer for a pipeline.
    pub(super) fn set_timer(&mut self, run: &StepRunId, iteration: Option<u64>, purpose: TimerPurpose, due: Time) {
        let location = run_location(run).with_iteration(iteration);
        self.emit(location, EventBody::TimerSet(TimerSet { due, purpose }));
    }

    /// Sets the timer of a step that has a timeout.
    pub(super) fn set_step_timer(&mut self, run: &StepRunId) {
        let timeout = self.net.playbook.step(run.step.as_str()).and_then(|step| step.timeout);
        if let Some(timeout) = timeout {
            let due = self.stamp.now.after(timeout);
            self.set_timer(run, None, TimerPurpose::StepTimeout, due);
        }
    }

    fn time_out_step(&mut self, run: &StepRunId) {
        let is_live = self
            .state
            .runs
            .get(run)
            .is_some_and(|run| run.boundary.is_none() && !run.held);
        if is_live {
            let message = format!("step `{}` took longer than its timeout", run.step);
            let error = TaskError::new(ErrorKind::Timeout, "STEP_TIMEOUT", message);
            self.fail_run(run, error);
        }
    }

    /// Fails a step run by a decision of the server, and notifies its workers to stop.
    pub(super) fn fail_run(&mut self, run: &StepRunId, error: TaskError) {
        self.stop_commands(Some(run));
        self.cancel_children(Some(run));
        let error = error.with_detail("step", run.step.as_str());
        self.emit(
            run_location(run),
            EventBody::StepFailed(Box::new(FailurePayload { error, set_ctx: None })),
        );
    }
}
