//! Reuse: starts an execution from a later step with the results of another execution.

use language::playbook::Step;
use model::event::{
    EventBody, EventLocation, LoopStarted, ReusedIterations, ReusedPart, ReusedRecord, WorkflowStarted,
};
use model::id::{Name, Seq, StepRunId};
use model::raw::RawJson;
use model::size::size_error;
use serde_json::{Map, Value};

use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decide::{DecideError, PlaybookNet, Refusal};
use crate::reuse::{ReusePlan, ReusedState};

impl DecisionBuilder<'_> {
    /// Records the reused results and the initial tokens.
    pub(super) fn apply_reuse(&mut self, reused: ReusedState) -> Result<(), Refusal> {
        for step in reused.steps {
            for (label, source, ok) in step.tasks {
                let location = EventLocation {
                    task: Some(label),
                    ..EventLocation::of_step(&step.name)
                };
                self.record_reused(location, source, ReusedPart::Task { ok })?;
            }
            self.record_reused(
                EventLocation::of_step(&step.name),
                step.event,
                ReusedPart::Step(step.end),
            )?;
        }
        self.reuse_ctx(reused.ctx)?;
        if let Some((source, iterations)) = reused.iterations {
            let part = ReusedPart::Iterations(Box::new(iterations));
            self.record_reused(EventLocation::of_step(&reused.from_step), source, part)?;
        }
        let started = WorkflowStarted {
            entry: reused.from_step,
            tokens: Some(reused.tokens),
        };
        let body = EventBody::WorkflowStarted(started);
        self.check_event_size(&body)?;
        let seq = self.emit(EventLocation::default(), body);
        self.set_cause(seq);
        Ok(())
    }

    fn record_reused(
        &mut self,
        location: EventLocation,
        event: crate::reuse::EventRef,
        part: ReusedPart,
    ) -> Result<(), Refusal> {
        let (execution_id, seq) = event;
        let body = EventBody::StepReused(Box::new(ReusedRecord {
            execution_id,
            seq,
            part,
        }));
        self.check_event_size(&body)?;
        self.emit(location, body);
        Ok(())
    }

    fn check_event_size(&self, body: &EventBody) -> Result<(), Refusal> {
        let limit = self.net.limits.event_bytes_max;
        match size_error("a reused result", body.payload().text().len(), limit) {
            Some(_) => Err(Refusal::TooLarge),
            None => Ok(()),
        }
    }

    /// Restores the earlier `ctx` with as few patches as the event limit allows.
    fn reuse_ctx(&mut self, ctx: Map<String, Value>) -> Result<(), Refusal> {
        let limit = self.net.limits.event_bytes_max / 2;
        let (mut patch, mut bytes) = (Map::new(), 0);
        for (key, value) in ctx {
            let entry_bytes = key.len() + model::size::json_bytes(&value);
            if bytes + entry_bytes > limit && !patch.is_empty() {
                self.patch_reused_ctx(&std::mem::take(&mut patch))?;
                bytes = 0;
            }
            bytes += entry_bytes;
            patch.insert(key, value);
        }
        if patch.is_empty() {
            return Ok(());
        }
        self.patch_reused_ctx(&patch)
    }

    fn patch_reused_ctx(&mut self, patch: &Map<String, Value>) -> Result<(), Refusal> {
        let result = self.patch_ctx(EventLocation::default(), patch);
        result.map_err(|_| Refusal::TooLarge)
    }

    /// Starts a loop over the collection of the other execution; the reused iterations are already done.
    pub(super) fn start_reused_loop(
        &mut self,
        id: &StepRunId,
        step: &Step,
        seq: Seq,
        reused: ReusedIterations,
    ) -> Result<(), DecideError> {
        let Some(loop_) = &step.loop_ else {
            return Ok(());
        };
        let started = self.build_loop_started(step, loop_, reused.total, reused.sha256)?;
        let started = LoopStarted {
            collection: reused.collection,
            collection_ref: reused.collection_ref,
            range: reused.range,
            reused: Some(seq),
            ..started
        };
        self.emit(run_location(id), EventBody::LoopStarted(Box::new(started)));
        Ok(())
    }
}

impl ReusePlan {
    /// Checks that the playbook has all steps that the rerun continues with.
    pub fn check_steps_exist(&self, net: &PlaybookNet) -> Result<(), Refusal> {
        let Some(reused) = &self.reused_state else {
            return Ok(());
        };
        let find_step = |step: &Name| net.playbook.step(step.as_str());
        let Some(from) = find_step(&reused.from_step) else {
            return Err(Refusal::StepUnknown(reused.from_step.clone()));
        };
        if reused.iterations.is_some() && from.loop_.is_none() {
            return Err(Refusal::NotALoop);
        }
        if reused.iterations.is_some() && from.cursor_claim().is_some() {
            return Err(Refusal::CursorLoop);
        }
        let mut token_steps = reused.tokens.iter().map(|token| &token.step);
        match token_steps.find(|step| find_step(step).is_none()) {
            Some(step) => Err(Refusal::StepMissing(step.clone())),
            None => Ok(()),
        }
    }

    /// The payload merged over the inputs of the original execution.
    pub fn merged_workload(&self, payload: Option<&RawJson>) -> Map<String, Value> {
        let mut merged = match self.workload.to_value() {
            Value::Object(workload) => workload,
            _ => Map::new(),
        };
        if let Some(Value::Object(payload)) = payload.map(RawJson::to_value) {
            model::merge::merge_into(&mut merged, payload);
        }
        merged
    }
}
