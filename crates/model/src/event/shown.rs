//! An event as API and CLI show it: every stored and derived field of the envelope, absent ones left out.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::event::{Body, Event};

impl Event {
    /// The event as JSON; 64-bit ids are strings.
    pub fn to_json(&self) -> Value {
        let mut shown = Shown(Map::new());
        shown.put("event_id", &self.event_id);
        shown.put("event_type", &self.kind());
        shown.put("event_alias", &self.kind().alias());
        shown.put("timestamp", &self.timestamp);
        shown.put("recorded_at", &self.recorded_at);
        shown.put("execution_id", &self.execution_id);
        shown.put("seq", &self.seq);
        shown.maybe("cause_seq", self.cause_seq.as_ref());
        shown.put("source", &self.source);
        shown.put("entity_type", &self.kind().entity());
        shown.put("entity_id", &self.entity_id());
        shown.maybe("parent_id", self.parent_id().as_ref());
        shown.put("workflow_run_id", &self.workflow_run_id());
        self.show_place(&mut shown);
        shown.put("status", &self.status());
        shown.maybe("duration_ms", self.duration_ms.as_ref());
        shown.maybe("trace_id", self.trace_id().as_ref());
        shown.maybe("worker_id", self.worker_id.as_ref());
        shown.put("payload", &self.shown_payload());
        shown.maybe(
            "meta",
            self.meta.as_ref().map(crate::raw::Raw::value).as_ref(),
        );
        Value::Object(shown.0)
    }

    fn show_place(&self, shown: &mut Shown) {
        let at = &self.at;
        shown.maybe("step", at.step.as_ref());
        let step_run_id = at.step_run_id().map(|run| run.to_string());
        shown.maybe("step_run_id", step_run_id.as_ref());
        shown.maybe("task_label", at.task.as_ref());
        shown.maybe("task_run_id", at.task_run_id().as_ref());
        shown.maybe("iteration", at.iteration.as_ref());
        shown.maybe("iteration_id", at.iteration_id().as_ref());
        shown.maybe("attempt", (at.attempt > 0).then_some(&at.attempt));
        shown.maybe("page", at.page.as_ref());
    }

    fn trace_id(&self) -> Option<&crate::id::Name> {
        match &self.body {
            Body::ExecutionRequested(request) => request.trace_id.as_ref(),
            _ => None,
        }
    }

    /// The payload; beside a stored body its extracted fields stand where readers look for them.
    fn shown_payload(&self) -> Value {
        let mut payload = self.body.payload().value();
        if let Body::ResultStored(stored) | Body::ManifestUpdated(stored) = &self.body
            && !stored.result_ref.extracted.is_empty()
            && let Value::Object(fields) = &mut payload
        {
            let extracted = Value::Object(stored.result_ref.extracted.clone());
            fields.insert("extracted".to_owned(), extracted);
        }
        payload
    }
}

struct Shown(Map<String, Value>);

impl Shown {
    fn put<T: Serialize>(&mut self, name: &str, value: &T) {
        let value = serde_json::to_value(value).expect("plain data serialises to JSON");
        self.0.insert(name.to_owned(), value);
    }

    fn maybe<T: Serialize>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}
