//! Child executions: a task starts one with a message, and a message from the child completes the task.

use model::event::{At, Body, ChildStart, Event, Parent, Signal, own_trace};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::outcome::{ErrorKind, Outcome};
use model::raw::Raw;
use serde_json::json;

use crate::decide::turn::{Turn, fatal};
use crate::decide::{Refusal, Undecided};
use crate::decision::MessageBody;

/// Signal name that records the end of a child.
const CHILD: &str = "$child";

impl Turn<'_> {
    /// Starts the child that a task requests. A child that failed before is retried instead.
    pub(super) fn start_child(&mut self, run: &StepRunId, event: &Event, start: &ChildStart) {
        let key = (
            event.at.iteration,
            event.at.task.clone().unwrap_or_else(|| Name::from("")),
        );
        let known = self
            .state
            .runs
            .get(run)
            .and_then(|run| run.children.get(&key))
            .copied();
        let Some(child) = known else { return };
        let depth = self.state.depth + 1;
        if depth > self.net.limits.depth_max {
            let limit = self.net.limits.depth_max;
            let message = format!("playbooks cannot be nested deeper than {limit} levels");
            let outcome = Outcome::error(fatal(ErrorKind::Unknown, "LIMIT_DEPTH", message));
            return self.receive_child(child.execution, event.seq, &outcome);
        }
        if child.execution == crate::state::child_id(event) {
            let parent = Parent {
                execution_id: self.state.execution,
                seq: event.seq,
                wait: start.wait,
                return_step: start.return_step.clone(),
                iter: start.iter.clone(),
            };
            let body = MessageBody::Start {
                path: start.path.clone(),
                version: start.version,
                input: start.input.clone(),
                parent,
                depth,
                base: self.state.path.clone(),
                trace_id: Some(self.trace()),
            };
            self.send(child.execution, body);
        } else {
            self.send(child.execution, MessageBody::Retry { version: None });
        }
        if !start.wait {
            let outcome = Outcome::ok(json!({"execution_id": child.execution.to_string()}));
            self.receive_child(child.execution, event.seq, &outcome);
        }
    }

    /// The trace of this execution and of its children.
    fn trace(&self) -> Name {
        let given = self.state.trace_id.clone();
        given.unwrap_or_else(|| own_trace(self.state.execution))
    }

    /// Handles the end of a child.
    pub(super) fn child_ended(
        &mut self,
        child: ExecutionId,
        seq: Seq,
        outcome: &Outcome,
    ) -> Result<(), Undecided> {
        if self.state.is_ended() {
            return Err(Refusal::Ended.into());
        }
        if !self.state.awaits_child(child) {
            return Err(Refusal::NotAwaited.into());
        }
        self.because_of(seq);
        self.receive_child(child, seq, outcome);
        Ok(())
    }

    fn receive_child(&mut self, child: ExecutionId, seq: Seq, outcome: &Outcome) {
        let signal = Signal {
            name: Name::from(CHILD),
            payload: Some(Raw::of(outcome)),
            child: Some(Self::child_end(child, seq)),
        };
        let received = self.emit(At::default(), Body::SignalReceived(signal));
        self.because_of(received);
    }
}
