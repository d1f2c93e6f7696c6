//! Entry: turns a request into an execution with one token at its first step.

use std::sync::Arc;

use model::event::{
    At, Body, Event, Nothing, RequestEvaluated, Requested, Source, WorkflowStarted,
};
use model::id::Seq;
use model::playbook::FirstValues;
use model::raw::Raw;
use model::size::too_large;
use model::template::{Data, Loaded, RunView, Scope};
use serde_json::{Map, Value};

use crate::decide::turn::Turn;
use crate::decide::{Net, Refusal};
use crate::input::{Stamp, Submit};

impl<'n> Turn<'n> {
    /// Records the request and creates the entry token.
    pub(super) fn begin(
        net: &'n Net,
        submit: Submit,
        mut stamp: Stamp,
        loaded: &Loaded,
    ) -> Result<Self, Refusal> {
        let mut submit = submit;
        if let Some(reuse) = &submit.reuse {
            reuse.must_suit(net)?;
            let workload = reuse.workload(submit.payload.as_ref());
            submit.payload = Some(Raw::of(&workload));
        }
        net.must_fit(submit.payload.as_ref())?;
        let run = RunView {
            execution_id: Some(submit.execution),
            path: Some(submit.path.clone()),
            version: Some(submit.version),
            parent_execution_id: submit.parent.as_ref().map(|parent| parent.execution_id),
        };
        let values = net.first_values(submit.payload.as_ref(), run, submit.env)?;
        let rerun = submit.reuse.as_ref().map(|reuse| reuse.rerun.clone());
        let trace_id = submit.trace_id.clone();
        let requested = Requested {
            path: submit.path,
            version: submit.version,
            hash: submit.hash,
            workload: Raw::of(&values.workload),
            parent: submit.parent,
            depth: submit.depth,
            trace_id: submit.trace_id,
            rerun: rerun.map(Box::new),
        };
        let root = Event {
            event_id: stamp.ids.event(),
            execution_id: submit.execution,
            seq: Seq(1),
            cause_seq: None,
            timestamp: stamp.now,
            recorded_at: stamp.now,
            source: Source::Server,
            at: At::default(),
            duration_ms: None,
            worker_id: None,
            trace_id,
            meta: None,
            body: Body::ExecutionRequested(Box::new(requested)),
        };
        let mut turn = Self::root(net, root, stamp, loaded);
        turn.emit(
            At::default(),
            Body::RequestEvaluated(RequestEvaluated { accepted: true }),
        );
        turn.emit(At::default(), Body::PlaybookStarted(Nothing {}));
        if !values.ctx.is_empty() {
            let patched = turn.patch_ctx(At::default(), &values.ctx);
            patched.map_err(|_| Refusal::TooLarge)?;
        }
        match submit.reuse.and_then(|reuse| reuse.takeover) {
            Some(takeover) => {
                turn.take_over(*takeover)?;
                // Reused results are read from this log, so they must be committed first.
                turn.rests = true;
            }
            None => turn.enter(),
        }
        Ok(turn)
    }

    /// Creates the entry token.
    fn enter(&mut self) {
        let entry = self.net.playbook.entry().name.clone();
        let started = WorkflowStarted {
            entry,
            tokens: None,
        };
        let seq = self.emit(At::default(), Body::WorkflowStarted(started));
        self.because_of(seq);
    }
}

impl Net {
    /// The request's payload merged over the unrendered defaults of the playbook.
    pub(super) fn workload_with(&self, payload: Option<&Raw>) -> Map<String, Value> {
        let payload = payload.map(Raw::value);
        let payload = payload.as_ref().and_then(Value::as_object);
        self.playbook.merged_workload(payload)
    }

    /// The initial values of an execution: the payload merged over the rendered defaults.
    pub fn first_values(
        &self,
        payload: Option<&Raw>,
        run: RunView,
        env: Option<Data>,
    ) -> Result<FirstValues, Refusal> {
        let payload = payload.map(Raw::value);
        let scope = Scope {
            run: Arc::new(run),
            env,
            ..Scope::default()
        };
        let payload = payload.as_ref().and_then(Value::as_object);
        let values = self.playbook.first_values(payload, &scope);
        let values = values.map_err(Refusal::Default)?;
        let limit = self.limits.event_bytes_max;
        // Rendered values may be larger than their templates.
        if !self.playbook.default_templates.is_empty()
            && too_large("the workload", model::size::bytes(&values.workload), limit).is_some()
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
    use crate::{Input, Limits, Undecided, decide};

    fn submit(payload: &Value) -> Result<crate::Decision, Undecided> {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
                    workload: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]\n";
        let parsed = model::playbook::parse("p", text.as_bytes());
        let playbook = parsed.playbook.expect("the playbook is valid");
        let net = Net::new(Arc::new(playbook), Limits::default());
        let submit = Submit {
            execution: ExecutionId(1),
            path: "p".into(),
            version: 1,
            hash: PlaybookHash::of(text),
            payload: Some(Raw::of(payload)),
            parent: None,
            depth: 0,
            trace_id: None,
            reuse: None,
            env: None,
        };
        let stamp = Stamp {
            now: Time(0),
            ids: IdBlock::starting_at(EventId(1)),
        };
        let input = Input::Submit(Box::new(submit));
        decide(&net, None, input, stamp, &Loaded::default())
    }

    #[test]
    fn a_payload_larger_than_an_event_is_refused_and_leaves_no_log() {
        let refused =
            submit(&json!({"x": "x".repeat(300_000)})).expect_err("the payload is too large");
        assert_eq!(refused, Undecided::Refused(Refusal::TooLarge));
        assert_eq!(Refusal::TooLarge.code(), "LIMIT_EVENT");
        submit(&json!({"x": "x".repeat(200_000)})).expect("the payload fits");
    }
}
