//! Successful ends of steps, and the `set` of the step that is applied there.
//!
//! A `set` that cannot be rendered or recorded fails the step, and a step run has one end. So the end is recorded only
//! together with its `set`: if that fails, `step.failed` replaces `step.done` or `loop.done`, no matter which process
//! reported it.

use language::playbook::Step;
use language::template::Envelope;
use language::template::{LazyValue, Scope};
use model::event::EventBody;
use model::id::StepRunId;

use crate::decide::DecideError;
use crate::decide::decision_builder::{Checkpoint, DecisionBuilder, run_location};
use crate::decide::scope::{EvalError, event_view};
use crate::state::Boundary;

impl<'n> DecisionBuilder<'n> {
    /// Returns a checkpoint of the state before the successful end of a step, if the step has a `set`.
    pub(super) fn checkpoint_for_set(&self, id: &StepRunId) -> Option<Checkpoint> {
        self.step_with_set(id).map(|_| self.checkpoint())
    }

    /// Applies the step's `set` at the end just recorded. `checkpoint` is the state before that end.
    pub(super) fn write_set(&mut self, id: &StepRunId, checkpoint: Option<Checkpoint>) -> Result<(), DecideError> {
        let (Some(step), Some(checkpoint)) = (self.step_with_set(id), checkpoint) else {
            return Ok(());
        };
        let Some(mut scope) = self.scope_at_boundary(id) else {
            return Ok(());
        };
        match self.write_ctx(step, &step.set, &mut scope) {
            Ok(()) => Ok(()),
            Err(EvalError::Undecided(undecided)) => Err(undecided),
            Err(EvalError::Failed(error) | EvalError::TooLarge(error)) => {
                self.roll_back_to(checkpoint);
                self.fail_run(id, *error);
                Ok(())
            }
        }
    }

    /// Ends a step successfully by a decision of the server.
    pub(super) fn complete_step(&mut self, id: &StepRunId, body: EventBody) -> Result<(), DecideError> {
        let checkpoint = self.checkpoint_for_set(id);
        let seq = self.emit(run_location(id), body);
        self.set_cause(seq);
        self.write_set(id, checkpoint)
    }

    /// The scope for templates of an ended run: its arguments, its boundary and its outcome.
    pub(super) fn scope_at_boundary(&mut self, id: &StepRunId) -> Option<Scope> {
        let run = self.state.runs.get(id)?;
        let (ended, args) = (run.boundary.clone()?, run.args.clone());
        let origin = Boundary {
            seq: ended.seq,
            step: id.step.clone(),
            end: ended.end,
            timestamp: ended.timestamp,
        };
        let mut scope = self.scope();
        scope.args = args.map_or_else(LazyValue::default, LazyValue::from_raw);
        scope.event = Some(event_view(&origin, ended.error.as_ref()));
        let summary = self.state.steps.get(&id.step);
        let latest = summary.and_then(|summary| summary.latest.as_ref());
        scope.outcome = latest.map(Envelope::from);
        Some(scope)
    }

    /// The step of this run, if it has a `set`. The final step's routing is ignored, including its `set`.
    fn step_with_set(&self, id: &StepRunId) -> Option<&'n Step> {
        let is_final = self.state.runs.get(id).is_none_or(|run| run.is_final);
        let net = self.net;
        let step = net.playbook.step(id.step.as_str());
        step.filter(|step| !is_final && !step.set.is_empty())
    }
}
