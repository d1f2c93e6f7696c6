//! Boundaries that a step reaches well, and what its own `set` writes there.
//!
//! A `set` that cannot be rendered or recorded fails the step, and a step run has one boundary. So the boundary is
//! written down only together with its `set`: where that fails, `step.failed` takes the place of `step.done` or
//! `loop.done`, whoever reported it.

use model::event::Body;
use model::id::StepRunId;
use model::playbook::Step;
use model::template::{Data, Scope};

use crate::decide::Undecided;
use crate::decide::scope::{Unrendered, event_view};
use crate::decide::turn::{Mark, Turn, at_run};
use crate::state::Boundary;

impl<'n> Turn<'n> {
    /// Takes note of where a step stood before it ended well, if it has something to write there.
    pub(super) fn mark_for_set(&self, id: &StepRunId) -> Option<Mark> {
        self.step_with_set(id).map(|_| self.mark())
    }

    /// Writes what a step sets at the boundary just recorded; `before` is where it stood without that boundary.
    pub(super) fn write_set(
        &mut self,
        id: &StepRunId,
        before: Option<Mark>,
    ) -> Result<(), Undecided> {
        let (Some(step), Some(before)) = (self.step_with_set(id), before) else {
            return Ok(());
        };
        let Some(mut scope) = self.scope_at_boundary(id) else {
            return Ok(());
        };
        match self.write_ctx(step, &step.set, &mut scope) {
            Ok(()) => Ok(()),
            Err(Unrendered::Undecided(undecided)) => Err(undecided),
            Err(Unrendered::Failed(error) | Unrendered::TooLarge(error)) => {
                self.go_back_to(before);
                self.fail_run(id, *error);
                Ok(())
            }
        }
    }

    /// Ends a step well, on the server's own word.
    pub(super) fn end_well(&mut self, id: &StepRunId, body: Body) -> Result<(), Undecided> {
        let before = self.mark_for_set(id);
        let seq = self.emit(at_run(id), body);
        self.because_of(seq);
        self.write_set(id, before)
    }

    /// What the templates of an ended run see: its arguments, its boundary and its outcome.
    pub(super) fn scope_at_boundary(&mut self, id: &StepRunId) -> Option<Scope> {
        let run = self.state.runs.get(id)?;
        let (ended, args) = (run.boundary.clone()?, run.args.clone());
        let came = Boundary {
            seq: ended.seq,
            step: id.step.clone(),
            end: ended.end,
            timestamp: ended.timestamp,
        };
        let mut scope = self.scope();
        scope.args = args.map_or_else(Data::default, Data::lazy);
        scope.event = Some(event_view(&came, ended.error.as_ref()));
        let summary = self.state.steps.get(&id.step);
        let latest = summary.and_then(|summary| summary.latest.as_ref());
        scope.outcome = latest.map(model::template::Latest::envelope);
        Some(scope)
    }

    /// The step of this run, if it writes something when it ends. The final step's routing is ignored, `set` and all.
    fn step_with_set(&self, id: &StepRunId) -> Option<&'n Step> {
        let is_final = self.state.runs.get(id).is_none_or(|run| run.is_final);
        let net = self.net;
        let step = net.playbook.step(id.step.as_str());
        step.filter(|step| !is_final && !step.set.is_empty())
    }
}
