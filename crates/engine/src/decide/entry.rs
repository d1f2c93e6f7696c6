//! Entry: turns a request into an execution with one token at its first step.

use std::sync::Arc;

use language::playbook::FirstValues;
use language::template::{ExecutionView, LazyValue, LoadedValues, Scope};
use model::event::{
    EmptyPayload, Event, EventBody, EventLocation, EventSource, ExecutionRequested, RequestEvaluated, WorkflowStarted,
};
use model::id::Seq;
use model::raw::RawJson;
use model::size::size_error;
use serde_json::{Map, Value};

use crate::decide::decision_builder::DecisionBuilder;
use crate::decide::{PlaybookNet, Refusal};
use crate::input::{ExecutionRequest, Stamp};

impl<'n> DecisionBuilder<'n> {
    /// Records the request and creates the entry token.
    pub(super) fn start_execution(
        net: &'n PlaybookNet,
        submit: ExecutionRequest,
        mut stamp: Stamp,
        loaded: &LoadedValues,
    ) -> Result<Self, Refusal> {
        let mut submit = submit;
        if let Some(reuse) = &submit.reuse {
            reuse.check_steps_exist(net)?;
            let workload = reuse.merged_workload(submit.payload.as_ref());
            submit.payload = Some(RawJson::from_serializable(&workload));
        }
        net.check_payload_size(submit.payload.as_ref())?;
        let run = ExecutionView {
            execution_id: Some(submit.execution),
            path: Some(submit.path.clone()),
            version: Some(submit.version),
            parent_execution_id: submit.parent.as_ref().map(|parent| parent.execution_id),
        };
        let values = net.first_values(submit.payload.as_ref(), run, submit.env)?;
        let rerun = submit.reuse.as_ref().map(|reuse| reuse.origin.clone());
        let trace_id = submit.trace_id.clone();
        let requested = ExecutionRequested {
            path: submit.path,
            version: submit.version,
            hash: submit.hash,
            workload: RawJson::from_serializable(&values.workload),
            parent: submit.parent,
            depth: submit.depth,
            trace_id: submit.trace_id,
            rerun: rerun.map(Box::new),
            labels: submit.labels,
        };
        let root = Event {
            event_id: stamp.ids.next_event_id(),
            execution_id: submit.execution,
            seq: Seq(1),
            cause_seq: None,
            timestamp: stamp.now,
            recorded_at: stamp.now,
            source: EventSource::Server,
            location: EventLocation::default(),
            duration_ms: None,
            worker_id: None,
            trace_id,
            meta: None,
            body: EventBody::ExecutionRequested(Box::new(requested)),
        };
        let mut turn = Self::from_first_event(net, root, stamp, loaded);
        turn.emit(
            EventLocation::default(),
            EventBody::RequestEvaluated(RequestEvaluated { accepted: true }),
        );
        turn.emit(EventLocation::default(), EventBody::PlaybookStarted(EmptyPayload {}));
        if !values.ctx.is_empty() {
            let patched = turn.patch_ctx(EventLocation::default(), &values.ctx);
            patched.map_err(|_| Refusal::TooLarge)?;
        }
        match submit.reuse.and_then(|reuse| reuse.reused_state) {
            Some(reused) => {
                turn.apply_reuse(*reused)?;
                // Reused results are read from this log, so they must be committed first.
                turn.defers_remaining = true;
            }
            None => turn.create_entry_token(),
        }
        Ok(turn)
    }

    /// Creates the entry token.
    fn create_entry_token(&mut self) {
        let entry = self.net.playbook.entry().name.clone();
        let started = WorkflowStarted { entry, tokens: None };
        let seq = self.emit(EventLocation::default(), EventBody::WorkflowStarted(started));
        self.set_cause(seq);
    }
}

impl PlaybookNet {
    /// The request's payload merged over the unrendered defaults of the playbook.
    pub(super) fn workload_with(&self, payload: Option<&RawJson>) -> Map<String, Value> {
        let payload = payload.map(RawJson::to_value);
        let payload = payload.as_ref().and_then(Value::as_object);
        self.playbook.merged_workload(payload)
    }

    /// The initial values of an execution: the payload merged over the rendered defaults.
    pub fn first_values(
        &self,
        payload: Option<&RawJson>,
        run: ExecutionView,
        env: Option<LazyValue>,
    ) -> Result<FirstValues, Refusal> {
        let payload = payload.map(RawJson::to_value);
        let scope = Scope {
            execution: Arc::new(run),
            env,
            ..Scope::default()
        };
        let payload = payload.as_ref().and_then(Value::as_object);
        let values = self.playbook.first_values(payload, &scope);
        let values = values.map_err(Refusal::Default)?;
        let limit = self.limits.event_bytes_max;
        // Rendered values may be larger than their templates.
        if !self.playbook.default_templates.is_empty()
            && size_error("the workload", model::size::json_bytes(&values.workload), limit).is_some()
        {
            return Err(Refusal::TooLarge);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use model::id::{EventId, ExecutionId, IdBlock, PlaybookHash};
    use model::time::Time;
    use serde_json::json;

    use super::*;
    use crate::{DecideError, ExecutionLimits, Input, decide};

    fn submit(payload: &Value) -> Result<crate::Decision, DecideError> {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
                    workload: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]\n";
        let parsed = language::playbook::parse("p", text.as_bytes());
        let playbook = parsed.playbook.expect("the playbook is valid");
        let net = PlaybookNet::new(Arc::new(playbook), ExecutionLimits::default());
        let submit = ExecutionRequest {
            execution: ExecutionId(1),
            path: "p".into(),
            version: 1,
            hash: PlaybookHash::from_text(text),
            payload: Some(RawJson::from_serializable(payload)),
            parent: None,
            depth: 0,
            trace_id: None,
            labels: model::labels::Labels::default(),
            reuse: None,
            env: None,
        };
        let stamp = Stamp {
            now: Time(0),
            ids: IdBlock::starting_at(EventId(1)),
        };
        let input = Input::Submit(Box::new(submit));
        decide(&net, None, input, stamp, &LoadedValues::default())
    }

    #[test]
    fn a_payload_larger_than_an_event_is_refused_and_leaves_no_log() {
        let refused = submit(&json!({"x": "x".repeat(300_000)})).expect_err("the payload is too large");
        assert_eq!(refused, DecideError::Refused(Refusal::TooLarge));
        assert_eq!(Refusal::TooLarge.code(), "LIMIT_EVENT");
        submit(&json!({"x": "x".repeat(200_000)})).expect("the payload fits");
    }
}
