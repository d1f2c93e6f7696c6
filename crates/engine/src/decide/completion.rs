//! Completion: ends the execution when no work is left and the final step has run.

use std::sync::Arc;

use language::template::Envelope;
use language::template::{EnvelopeContent, Need};
use model::event::{
    ChildEnd, EmptyPayload, EndStatus, EventBody, EventLocation, ExecutionFinished, ResultPointer, UniqueKey,
};
use model::id::Name;
use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use serde_json::Value;

use crate::decide::DecideError;
use crate::decide::decision_builder::DecisionBuilder;
use crate::decision::ExecutionMessage;
use crate::state::StopReason;

impl DecisionBuilder<'_> {
    /// Ends the execution if no work is left. Returns true if it emitted events that may require more decisions.
    pub(super) fn complete_execution(&mut self) -> Result<bool, DecideError> {
        let index = self.index();
        if !index.busy_steps.is_empty() {
            return Ok(false);
        }
        let parked = !index.parked_tokens.is_empty();
        drop(index);
        if parked && !self.state.final_ran {
            // While the execution is paused, a signal or a patch may still change what the rules read.
            return Ok(!self.state.paused && self.discard_parked());
        }
        let net = self.net;
        if let Some(step) = net
            .playbook
            .executor
            .final_step
            .clone()
            .filter(|_| !self.state.final_ran)
        {
            self.schedule(&step, Vec::new(), true);
            return Ok(true);
        }
        let failed = self.state.error.is_some() || self.state.runs.values().any(|run| run.held);
        self.finish_execution(if failed { EndStatus::Error } else { EndStatus::Success })?;
        Ok(false)
    }

    /// Records the end and notifies the parent.
    pub(super) fn finish_execution(&mut self, ended: EndStatus) -> Result<(), DecideError> {
        let generation = self.state.generation;
        let return_step = self.state.parent.as_ref().and_then(|parent| parent.return_step.clone());
        let result = self.result_pointer(return_step.as_ref());
        let error = match ended {
            EndStatus::Success => None,
            EndStatus::Error => self.state.error.clone().or_else(|| self.finalized_error()),
            EndStatus::Cancelled => Some(TaskError::permanent(
                ErrorKind::Cancelled,
                "CANCELLED",
                "the run was cancelled",
            )),
        };
        let outcome = self.outcome_for_parent(ended, result.as_ref(), error.as_ref())?;
        let finished = ExecutionFinished {
            generation,
            result,
            error,
            ended,
        };
        self.emit(
            EventLocation::default(),
            EventBody::WorkflowFinished(Box::new(finished.clone())),
        );
        self.unique_keys.push(UniqueKey::Terminal { generation });
        self.emit(
            EventLocation::default(),
            EventBody::PlaybookFinished(Box::new(finished)),
        );
        if let (Some(parent), Some(outcome)) = (self.state.parent.clone(), outcome) {
            let body = ExecutionMessage::ChildEnded {
                seq: parent.seq,
                outcome: Box::new(outcome),
            };
            self.send(parent.execution_id, body);
        }
        self.emit(EventLocation::default(), EventBody::PlaybookProcessed(EmptyPayload {}));
        Ok(())
    }

    /// The error of an execution that an operator finalized as failed without an earlier error.
    fn finalized_error(&self) -> Option<TaskError> {
        let stop = self.state.stop.as_ref()?;
        let is_finalized = matches!(stop.reason, StopReason::Finalized(_));
        is_finalized.then(|| {
            let note = stop.note.as_ref().map(|note| format!(": {note}"));
            let message = format!("the run was finalized as failed{}", note.unwrap_or_default());
            TaskError::permanent(ErrorKind::Cancelled, "FINALIZED", message)
        })
    }

    /// Notifies the parent again of this execution's successful end, because the parent did not receive it.
    pub(super) fn resend_end_to_parent(&mut self) -> Result<(), DecideError> {
        let parent = self.state.parent.clone();
        let return_step = parent.as_ref().and_then(|parent| parent.return_step.clone());
        let result = self.result_pointer(return_step.as_ref());
        let outcome = self.outcome_for_parent(EndStatus::Success, result.as_ref(), None)?;
        if let (Some(parent), Some(outcome)) = (parent, outcome) {
            let body = ExecutionMessage::ChildEnded {
                seq: parent.seq,
                outcome: Box::new(outcome),
            };
            self.send_with_new_key(parent.execution_id, body);
        }
        Ok(())
    }

    /// The result of the execution: that of the requested step, else of `end`, else of the last boundary.
    fn result_pointer(&self, return_step: Option<&Name>) -> Option<ResultPointer> {
        let of_step = |name: &Name| {
            let latest = self.state.steps.get(name)?.latest.as_ref()?;
            Some(ResultPointer {
                step: name.clone(),
                seq: latest.boundary,
            })
        };
        let requested = return_step.and_then(of_step);
        let end = self.state.end_boundary.clone();
        requested.or(end).or_else(|| self.state.last_boundary.clone())
    }

    /// The outcome that is sent to a waiting parent.
    fn outcome_for_parent(
        &mut self,
        ended: EndStatus,
        result: Option<&ResultPointer>,
        error: Option<&TaskError>,
    ) -> Result<Option<Outcome>, DecideError> {
        if !self.state.parent.as_ref().is_some_and(|parent| parent.wait) {
            return Ok(None);
        }
        if ended != EndStatus::Success {
            let unknown = || TaskError::permanent(ErrorKind::Unknown, "CHILD_FAILED", "the child run failed");
            let error = error.cloned().unwrap_or_else(unknown);
            return Ok(Some(Outcome::error(
                error.with_detail("child_execution_id", self.state.execution.to_string()),
            )));
        }
        let latest = result.and_then(|pointer| self.state.steps.get(&pointer.step)?.latest.clone());
        let outcome = match latest.map(|latest| Envelope::from(&latest).content) {
            Some(EnvelopeContent::Event(seq)) => self.loaded_outcome(Need::Outcome(seq))?,
            Some(EnvelopeContent::Loop(pointer)) => self.loaded_outcome(Need::Loop(pointer))?,
            _ => Outcome::ok(Value::Null),
        };
        // A successful execution passes on no error, even if its last task failed.
        let outcome = if outcome.is_ok() {
            outcome
        } else {
            Outcome::ok(Value::Null)
        };
        Ok(Some(outcome))
    }

    /// Returns a loaded outcome or loop result; if it is missing, returns `Undecided::Needs`.
    fn loaded_outcome(&mut self, need: Need) -> Result<Outcome, DecideError> {
        loop {
            let loaded = Arc::clone(&self.loaded);
            let value = match &need {
                Need::Outcome(seq) => loaded.outcomes.get(seq).map(|outcome| (**outcome).clone()),
                // The result of an execution that ends with a loop is the list of its results.
                Need::Loop(pointer) => loaded.loops.get(&pointer.done).map(|data| {
                    Outcome::Ok(Success {
                        result: data.json()["results"].clone(),
                        ..Success::default()
                    })
                }),
                Need::Body(_) | Need::File(_) | Need::LoopStats(_) => None,
            };
            match value {
                Some(outcome) => return Ok(outcome),
                None if self.load_own_event(&need) => {}
                None => return Err(DecideError::Needs(vec![need])),
            }
        }
    }

    /// A reference to a child's end, for the parent's log.
    pub(super) fn child_end(child: model::id::ExecutionId, seq: model::id::Seq) -> ChildEnd {
        ChildEnd {
            execution_id: child,
            seq,
        }
    }
}
