//! The fields of events, lines of output and errors of tasks, for the API document.
//!
//! These types only describe JSON: `model` owns the types that are serialized, and it does not know the API document. The
//! tests compare both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An event of the log of a run. Fields that do not apply to an event are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LogEvent)]
pub struct LogEventSchema {
    /// Event ID.
    pub event_id: String,
    /// Its type, such as `task.done`.
    pub event_type: String,
    /// Another name of the type that existing clients know.
    pub event_alias: String,
    /// The clock of the process that emitted the event.
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// The clock of the store.
    #[schema(format = DateTime)]
    pub recorded_at: String,
    /// Run ID.
    pub execution_id: String,
    /// Its position in the log of the run, from 1 without gaps.
    pub seq: u64,
    /// The event that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cause_seq: Option<u64>,
    /// Who emitted it: `server`, `worker` or `external`.
    pub source: String,
    /// The kind of the entity that the event is about.
    pub entity_type: String,
    /// The ID of that entity.
    pub entity_id: String,
    /// The ID of the entity that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent_id: Option<String>,
    /// The ID of the workflow run.
    pub workflow_run_id: String,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub step: Option<String>,
    /// The run of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub step_run_id: Option<String>,
    /// The label of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub task_label: Option<String>,
    /// The run of the task; its attempts have the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub task_run_id: Option<String>,
    /// The iteration of the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub iteration: Option<u64>,
    /// The ID of the iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub iteration_id: Option<String>,
    /// The attempt of the task, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub attempt: Option<u32>,
    /// The page of a paginated result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub page: Option<u64>,
    /// `in_progress`, `success`, `error`, `skipped`, `paused` or `cancelled`.
    pub status: String,
    /// How long the entity took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub duration_ms: Option<u64>,
    /// The trace that the event belongs to.
    pub trace_id: String,
    /// The worker that emitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub worker_id: Option<String>,
    /// The fields of its type.
    pub payload: BTreeMap<String, Value>,
    /// The result of a failed run, at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub result: Option<Value>,
    /// Further data that the emitter sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub meta: Option<BTreeMap<String, Value>>,
}

/// A line that a task printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LogLine)]
pub struct LogLineSchema {
    /// When it was printed.
    #[schema(format = DateTime)]
    pub time: String,
    /// Run ID.
    pub execution: String,
    /// The step.
    pub step: String,
    /// The run of the step, from 1.
    pub run: u32,
    /// The iteration of the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub iteration: Option<u64>,
    /// The label of the task.
    pub task: String,
    /// How often the task has been entered, from 1.
    pub visit: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The line without its line ending.
    pub text: String,
    /// Its position in the log of the run; only in responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub position: Option<u64>,
    /// `debug`, `info`, `warn` or `error`; only in responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub level: Option<String>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TaskError)]
pub struct TaskErrorSchema {
    /// The class of the failure, such as `timeout` or `client_error`.
    pub kind: String,
    /// Stable code, such as `TIMEOUT` or `HTTP_503`.
    pub code: String,
    /// What failed, for people.
    pub message: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub step: Option<String>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub task: Option<String>,
    /// The iteration of the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub iteration: Option<u64>,
    /// Its line in the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub line: Option<u64>,
    /// Its column in the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub column: Option<u64>,
    /// Details of its kind, such as `exit_code`.
    #[serde(flatten)]
    pub details: BTreeMap<String, Value>,
}

#[cfg(test)]
mod tests {
    use model::outcome::{ErrorKind, TaskError};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;
    use crate::api::LogEntry;
    use crate::parse_event_json;

    /// Checks that JSON has exactly the described fields: what is parsed with the description serializes to the same.
    fn check_description<T: DeserializeOwned + Serialize>(json: &Value) {
        let described: T = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(&serde_json::to_value(described).unwrap(), json);
    }

    #[test]
    fn an_event_has_the_described_fields() {
        let text = r#"{"event_id":"7","event_type":"task.done","timestamp":"2026-01-02T03:04:05.000006Z",
            "recorded_at":"2026-01-02T03:04:05.000007Z","execution_id":"5","seq":9,"cause_seq":8,"source":"worker",
            "step":"a","step_run_id":"step:a:run:2","task_label":"t","task_run_id":"task:a.t:run:2.3.1","iteration":3,
            "attempt":2,"page":4,"duration_ms":12,"worker_id":"w","status":"success","meta":{"note":"x"},
            "payload":{"do":"continue","matched_rule_index":0,"outcome":{"status":"ok","result":1}}}"#;
        let event = parse_event_json(text).unwrap().to_json();
        assert!(event.as_object().unwrap().len() > 20, "{event}");
        check_description::<LogEventSchema>(&event);
    }

    #[test]
    fn a_line_has_the_described_fields() {
        let line = json!({"time": "2026-01-02T03:04:05.000006Z", "execution": "5", "step": "a", "run": 1, "iteration": 0,
            "task": "t", "visit": 1, "attempt": 1, "stream": "stderr", "text": "ERROR x", "position": 0, "level": "error"});
        let entry: LogEntry = serde_json::from_value(line).unwrap();
        check_description::<LogLineSchema>(&serde_json::to_value(entry).unwrap());
    }

    #[test]
    fn an_error_has_the_described_fields() {
        let mut error = TaskError::new(ErrorKind::Timeout, "TIMEOUT", "timed out");
        for (name, value) in [("step", json!("a")), ("line", json!(4)), ("exit_code", json!(1))] {
            error.details.insert(name.to_owned(), value);
        }
        check_description::<TaskErrorSchema>(&serde_json::to_value(error).unwrap());
    }

    #[test]
    fn a_field_that_is_not_described_is_found() {
        let described = serde_json::from_value::<LogLineSchema>(json!({"time": "x", "unknown": 1}));
        assert!(described.is_err());
    }
}
