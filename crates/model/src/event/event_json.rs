//! The JSON form of an event for API and CLI: all stored and derived fields of the envelope that are set.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::event::{EndStatus, Event, EventBody};
use crate::outcome::TaskError;
use crate::raw::RawJson;

impl Event {
    /// Returns the event as JSON; 64-bit ids are strings.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(EventJson(self)).expect("plain data serializes to JSON")
    }

    /// Returns the event as JSON text.
    pub fn to_raw(&self) -> RawJson {
        RawJson::from_serializable(&EventJson(self))
    }

    /// Returns the result of a failed run in the form that clients of older logs expect.
    fn legacy_result(&self) -> Option<Value> {
        let (EventBody::PlaybookFinished(finished) | EventBody::WorkflowFinished(finished)) = &self.body else {
            return None;
        };
        let has_failed = finished.ended == EndStatus::Error;
        let error = finished.error.as_ref().filter(|_| has_failed)?;
        Some(failed_result(error))
    }

    /// Returns the payload; for a stored body, its extracted fields are added where clients expect them.
    fn payload_with_extracted(&self) -> RawJson {
        let payload = self.body.payload();
        let (EventBody::ResultStored(stored) | EventBody::ManifestUpdated(stored)) = &self.body else {
            return payload;
        };
        let extracted = &stored.result_ref.extracted;
        match payload.to_value() {
            Value::Object(mut fields) if !extracted.is_empty() => {
                let extracted = Value::Object(extracted.clone());
                fields.insert("extracted".to_owned(), extracted);
                RawJson::from_serializable(&fields)
            }
            _ => payload,
        }
    }
}

/// Returns the result of a failed run, with its error at the location that specification 002 defines.
pub fn failed_result(error: &TaskError) -> Value {
    json!({"status": "FAILED", "context": {"error": error}})
}

/// An event that serializes to the JSON of API and CLI.
struct EventJson<'e>(&'e Event);

impl Serialize for EventJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(event) = self;
        let kind = event.kind();
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("event_id", &event.event_id)?;
        fields.serialize_entry("event_type", &kind)?;
        fields.serialize_entry("event_alias", &kind.alias())?;
        fields.serialize_entry("timestamp", &event.timestamp)?;
        fields.serialize_entry("recorded_at", &event.recorded_at)?;
        fields.serialize_entry("execution_id", &event.execution_id)?;
        fields.serialize_entry("seq", &event.seq)?;
        serialize_if_some(&mut fields, "cause_seq", event.cause_seq.as_ref())?;
        fields.serialize_entry("source", &event.source)?;
        fields.serialize_entry("entity_type", &kind.entity())?;
        fields.serialize_entry("entity_id", &event.entity_id())?;
        serialize_if_some(&mut fields, "parent_id", event.parent_id())?;
        fields.serialize_entry("workflow_run_id", &event.workflow_run_id())?;
        let location = &event.location;
        serialize_if_some(&mut fields, "step", location.step.as_ref())?;
        let step_run_id = location.step_run_id().map(|run| run.to_string());
        serialize_if_some(&mut fields, "step_run_id", step_run_id)?;
        serialize_if_some(&mut fields, "task_label", location.task.as_ref())?;
        serialize_if_some(&mut fields, "task_run_id", location.task_run_id())?;
        serialize_if_some(&mut fields, "iteration", location.iteration)?;
        serialize_if_some(&mut fields, "iteration_id", location.iteration_id())?;
        let attempt = (location.attempt > 0).then_some(location.attempt);
        serialize_if_some(&mut fields, "attempt", attempt)?;
        serialize_if_some(&mut fields, "page", location.page)?;
        fields.serialize_entry("status", &event.status())?;
        serialize_if_some(&mut fields, "duration_ms", event.duration_ms)?;
        fields.serialize_entry("trace_id", &event.trace_id())?;
        serialize_if_some(&mut fields, "worker_id", event.worker_id.as_ref())?;
        fields.serialize_entry("payload", &event.payload_with_extracted())?;
        serialize_if_some(&mut fields, "result", event.legacy_result())?;
        serialize_if_some(&mut fields, "meta", event.meta.as_ref())?;
        fields.end()
    }
}

fn serialize_if_some<M: SerializeMap, T: Serialize>(
    fields: &mut M,
    name: &'static str,
    value: Option<T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| fields.serialize_entry(name, &value))
}
