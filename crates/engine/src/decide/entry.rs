//! Entry: a request becomes a run with one token at its first step.

use model::event::{
    At, Body, Event, Nothing, RequestEvaluated, Requested, Source, WorkflowStarted,
};
use model::id::Seq;
use model::raw::Raw;
use model::template::Loaded;
use serde_json::{Map, Value};

use crate::decide::Net;
use crate::decide::turn::Turn;
use crate::input::{Stamp, Submit};

impl<'n> Turn<'n> {
    /// Records the request and places the entry token.
    pub(super) fn begin(net: &'n Net, submit: Submit, mut stamp: Stamp, loaded: &Loaded) -> Self {
        let playbook = &net.playbook;
        let workload = merge(&playbook.workload, submit.payload.as_ref());
        let requested = Requested {
            path: submit.path,
            version: submit.version,
            hash: submit.hash,
            workload: Raw::of(&workload),
            parent: submit.parent,
            depth: submit.depth,
            trace_id: submit.trace_id,
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
            meta: None,
            body: Body::ExecutionRequested(Box::new(requested)),
        };
        let mut turn = Self::root(net, root, stamp, loaded);
        turn.emit(
            At::default(),
            Body::RequestEvaluated(RequestEvaluated { accepted: true }),
        );
        turn.emit(At::default(), Body::PlaybookStarted(Nothing {}));
        let entry = playbook.entry().name.clone();
        let started = turn.emit(
            At::default(),
            Body::WorkflowStarted(WorkflowStarted { entry }),
        );
        turn.because_of(started);
        turn
    }
}

/// The request's payload over the playbook's defaults: maps merge deeply, lists and scalars replace.
fn merge(defaults: &Map<String, Value>, payload: Option<&Raw>) -> Map<String, Value> {
    let mut merged = defaults.clone();
    if let Some(Value::Object(given)) = payload.map(Raw::value) {
        merge_into(&mut merged, given);
    }
    merged
}

fn merge_into(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_into(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
