//! Child executions: a task starts one with a message, and a message from the child completes the task.

use model::event::{ChildStart, Event, EventBody, EventLocation, ParentTask, SignalReceived, default_trace_id};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use serde_json::json;

use crate::decide::decision_builder::DecisionBuilder;
use crate::decide::{DecideError, Refusal};
use crate::decision::ExecutionMessage;
use crate::input::ControlRequest;

/// Signal name that records the end of a child.
const CHILD_SIGNAL: &str = "$child";

impl DecisionBuilder<'_> {
    /// Starts the child that a task requests. A child that failed before is retried instead.
    pub(super) fn start_child(&mut self, run: &StepRunId, event: &Event, start: &ChildStart) {
        let key = (
            event.location.iteration,
            event.location.task.clone().unwrap_or_else(|| Name::from("")),
        );
        let existing = self.state.runs.get(run).and_then(|run| run.children.get(&key)).copied();
        let Some(child) = existing else { return };
        let depth = self.state.depth + 1;
        if depth > self.net.limits.depth_max {
            let limit = self.net.limits.depth_max;
            let message = format!("playbooks cannot be nested deeper than {limit} levels");
            let outcome = Outcome::error(TaskError::permanent(ErrorKind::Unknown, "LIMIT_DEPTH", message));
            return self.receive_child(child.execution, event.seq, &outcome);
        }
        if child.execution == crate::state::child_id(event) {
            let parent = ParentTask {
                execution_id: self.state.execution,
                seq: event.seq,
                wait: start.wait,
                return_step: start.return_step.clone(),
                iter: start.iter.clone(),
            };
            let body = ExecutionMessage::Start {
                path: start.path.clone(),
                version: start.version,
                input: start.input.clone(),
                parent,
                depth,
                base: self.state.path.clone(),
                trace_id: Some(self.trace_id()),
            };
            self.send(child.execution, body);
        } else {
            self.send(
                child.execution,
                ExecutionMessage::Control(ControlRequest::Retry { version: None }),
            );
        }
        if !start.wait {
            let outcome = Outcome::ok(json!({"execution_id": child.execution.to_string()}));
            self.receive_child(child.execution, event.seq, &outcome);
        }
    }

    /// The trace of this execution and of its children.
    fn trace_id(&self) -> Name {
        let own_trace = self.state.trace_id.clone();
        own_trace.unwrap_or_else(|| default_trace_id(self.state.execution))
    }

    /// Handles the end of a child.
    pub(super) fn on_child_ended(
        &mut self,
        child: ExecutionId,
        seq: Seq,
        outcome: &Outcome,
    ) -> Result<(), DecideError> {
        if self.state.is_ended() {
            return Err(Refusal::ExecutionEnded.into());
        }
        if !self.state.awaits_child(child) {
            return Err(Refusal::NotAwaited.into());
        }
        self.set_cause(seq);
        self.receive_child(child, seq, outcome);
        Ok(())
    }

    fn receive_child(&mut self, child: ExecutionId, seq: Seq, outcome: &Outcome) {
        let signal = SignalReceived {
            name: Name::from(CHILD_SIGNAL),
            payload: Some(RawJson::from_serializable(outcome)),
            child: Some(Self::child_end(child, seq)),
        };
        let received = self.emit(EventLocation::default(), EventBody::SignalReceived(signal));
        self.set_cause(received);
    }
}
