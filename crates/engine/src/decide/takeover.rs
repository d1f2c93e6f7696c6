//! Reuse: starts an execution from a later step with the results of another execution.

use model::event::{At, Body, LoopStarted, Reused, ReusedIterations, ReusedPart, WorkflowStarted};
use model::id::{Name, Seq, StepRunId};
use model::playbook::Step;
use model::raw::Raw;
use model::size::too_large;
use serde_json::{Map, Value};

use crate::decide::turn::{Turn, at_run};
use crate::decide::{Net, Refusal, Undecided};
use crate::reuse::{Reuse, Takeover};

impl Turn<'_> {
    /// Records the reused results and the initial tokens.
    pub(super) fn take_over(&mut self, takeover: Takeover) -> Result<(), Refusal> {
        for step in takeover.steps {
            for (label, source, ok) in step.tasks {
                let at = At {
                    task: Some(label),
                    ..at_step(&step.name)
                };
                self.reuse(at, source, ReusedPart::Task { ok })?;
            }
            self.reuse(
                at_step(&step.name),
                step.source,
                ReusedPart::Step(step.ended),
            )?;
        }
        self.take_over_ctx(takeover.ctx)?;
        if let Some((source, iterations)) = takeover.iterations {
            let part = ReusedPart::Iterations(Box::new(iterations));
            self.reuse(at_step(&takeover.from_step), source, part)?;
        }
        let started = WorkflowStarted {
            entry: takeover.from_step,
            tokens: Some(takeover.tokens),
        };
        let body = Body::WorkflowStarted(started);
        self.must_hold_in_one(&body)?;
        let seq = self.emit(At::default(), body);
        self.because_of(seq);
        Ok(())
    }

    fn reuse(
        &mut self,
        at: At,
        (execution_id, seq): crate::reuse::Source,
        part: ReusedPart,
    ) -> Result<(), Refusal> {
        let body = Body::StepReused(Box::new(Reused {
            execution_id,
            seq,
            part,
        }));
        self.must_hold_in_one(&body)?;
        self.emit(at, body);
        Ok(())
    }

    fn must_hold_in_one(&self, body: &Body) -> Result<(), Refusal> {
        let limit = self.net.limits.event_bytes_max;
        match too_large("a reused result", body.payload().text().len(), limit) {
            Some(_) => Err(Refusal::TooLarge),
            None => Ok(()),
        }
    }

    /// Restores the earlier `ctx` with as few patches as the event limit allows.
    fn take_over_ctx(&mut self, ctx: Map<String, Value>) -> Result<(), Refusal> {
        let limit = self.net.limits.event_bytes_max / 2;
        let (mut patch, mut bytes) = (Map::new(), 0);
        for (key, value) in ctx {
            let more = key.len() + model::size::bytes(&value);
            if bytes + more > limit && !patch.is_empty() {
                self.patch_taken_over(&std::mem::take(&mut patch))?;
                bytes = 0;
            }
            bytes += more;
            patch.insert(key, value);
        }
        if patch.is_empty() {
            return Ok(());
        }
        self.patch_taken_over(&patch)
    }

    fn patch_taken_over(&mut self, patch: &Map<String, Value>) -> Result<(), Refusal> {
        let patched = self.patch_ctx(At::default(), patch);
        patched.map_err(|_| Refusal::TooLarge)
    }

    /// Starts a loop over the collection of the other execution; the reused iterations are already done.
    pub(super) fn start_over_reused(
        &mut self,
        id: &StepRunId,
        step: &Step,
        (seq, reused): (Seq, ReusedIterations),
    ) -> Result<(), Undecided> {
        let Some(loop_) = &step.loop_ else {
            return Ok(());
        };
        let started = self.loop_started(step, loop_, reused.total, reused.sha256)?;
        let started = LoopStarted {
            collection: reused.collection,
            collection_ref: reused.collection_ref,
            range: reused.range,
            reused: Some(seq),
            ..started
        };
        self.emit(at_run(id), Body::LoopStarted(Box::new(started)));
        Ok(())
    }
}

fn at_step(step: &Name) -> At {
    At {
        step: Some(step.clone()),
        ..At::default()
    }
}

impl Reuse {
    /// Checks that the playbook has all steps that the rerun continues with.
    pub fn must_suit(&self, net: &Net) -> Result<(), Refusal> {
        let Some(takeover) = &self.takeover else {
            return Ok(());
        };
        let is_known = |step: &Name| net.playbook.step(step.as_str());
        let Some(from) = is_known(&takeover.from_step) else {
            return Err(Refusal::StepUnknown(takeover.from_step.clone()));
        };
        if takeover.iterations.is_some() && from.loop_.is_none() {
            return Err(Refusal::NotALoop);
        }
        if takeover.iterations.is_some() && from.claim().is_some() {
            return Err(Refusal::Claims);
        }
        let mut lost = takeover.tokens.iter().map(|token| &token.step);
        match lost.find(|step| is_known(step).is_none()) {
            Some(step) => Err(Refusal::StepMissing(step.clone())),
            None => Ok(()),
        }
    }

    /// The payload merged over the inputs of the original execution.
    pub fn workload(&self, payload: Option<&Raw>) -> Map<String, Value> {
        let mut merged = match self.workload.value() {
            Value::Object(workload) => workload,
            _ => Map::new(),
        };
        if let Some(Value::Object(given)) = payload.map(Raw::value) {
            model::merge::merge_into(&mut merged, given);
        }
        merged
    }
}
