//! Entry: a request becomes a run with one token at its first step.

use model::event::{
    At, Body, Event, Nothing, RequestEvaluated, Requested, Source, WorkflowStarted,
};
use model::id::Seq;
use model::merge::merge_into;
use model::raw::Raw;
use model::template::Loaded;
use serde_json::{Map, Value};

use crate::decide::turn::Turn;
use crate::decide::{Net, Refusal};
use crate::input::{Stamp, Submit};

impl<'n> Turn<'n> {
    /// Records the request and places the entry token.
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
        let workload = net.workload_with(submit.payload.as_ref());
        let rerun = submit.reuse.as_ref().map(|reuse| reuse.rerun.clone());
        let trace_id = submit.trace_id.clone();
        let requested = Requested {
            path: submit.path,
            version: submit.version,
            hash: submit.hash,
            workload: Raw::of(&workload),
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
        match submit.reuse.and_then(|reuse| reuse.takeover) {
            Some(takeover) => {
                turn.take_over(*takeover)?;
                // What was taken over is read through this log, which must have it first.
                turn.rests = true;
            }
            None => turn.enter(),
        }
        Ok(turn)
    }

    /// Places the entry token.
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
    /// The request's payload over the playbook's defaults: maps merge deeply, lists and scalars replace.
    pub fn workload_with(&self, payload: Option<&Raw>) -> Map<String, Value> {
        let mut merged = self.playbook.workload.clone();
        if let Some(Value::Object(given)) = payload.map(Raw::value) {
            merge_into(&mut merged, given);
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::id::{EventId, ExecutionId, IdBlock, PlaybookHash};
    use model::time::Time;
    use serde_json::json;

    use super::*;
    use crate::{Input, Limits, Undecided, decide};

    fn submit(payload: &Value) -> Result<crate::Decision, Undecided> {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
                    workload: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]\n";
        let parsed = model::playbook::parse("p", text.as_bytes());
        let playbook = parsed.playbook.expect("the text is a playbook");
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
        let refused = submit(&json!({"x": "x".repeat(300_000)})).expect_err("it does not fit");
        assert_eq!(refused, Undecided::Refused(Refusal::TooLarge));
        assert_eq!(Refusal::TooLarge.code(), "LIMIT_EVENT");
        submit(&json!({"x": "x".repeat(200_000)})).expect("it fits");
    }
}
