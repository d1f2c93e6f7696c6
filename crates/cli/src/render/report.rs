//! JSON object of a run, printed by `-o json` of `run`, `resume`, `retry` and `show`.

use language::playbook::Playbook;
use model::id::ExecutionId;
use model::time::Time;
use serde_json::{Map, Value, json};

use crate::render::lines;
use crate::view::{RunView, StepView};

/// ID and name of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunName {
    /// Run ID.
    pub(crate) id: ExecutionId,
    /// Name of the playbook.
    pub(crate) name: String,
}

/// Builds the object; `result` is null and inserted later.
pub(crate) fn run_report(view: &RunView, run: &RunName, playbook: Option<&Playbook>, now: Time) -> Map<String, Value> {
    let steps = view.steps.iter().map(|step| step_report(step, playbook, now));
    let report = json!({
        "execution_id": run.id,
        "status": view.status,
        "name": run.name,
        "path": view.path,
        "generation": view.generation,
        "cancelling": view.is_cancelling,
        "started_at": view.started_at,
        "finished_at": view.finished_at,
        "duration_ms": view.elapsed_ms(now),
        "events": view.events,
        "result": null,
        "error": view.error,
        "steps": steps.collect::<Vec<_>>(),
    });
    match report {
        Value::Object(report) => report,
        _ => Map::new(),
    }
}

/// Builds the object of one step run.
fn step_report(step: &StepView, playbook: Option<&Playbook>, now: Time) -> Value {
    let mut fields = Map::new();
    fields.insert("step".to_owned(), json!(step.step));
    fields.insert("run".to_owned(), json!(step.run));
    fields.insert("kind".to_owned(), json!(lines::step_view_kind(playbook, step)));
    fields.insert("status".to_owned(), json!(step.status.name()));
    fields.insert("started_at".to_owned(), json!(step.started_at));
    fields.insert("finished_at".to_owned(), json!(step.ended_at));
    fields.insert("duration_ms".to_owned(), json!(step.elapsed_ms(now)));
    fields.insert("retries".to_owned(), json!(step.retries));
    if let Some(loop_view) = &step.loop_view {
        let stats = json!({
            "total": loop_view.total,
            "succeeded": loop_view.succeeded,
            "failed": loop_view.failed_count(),
            "in_flight": loop_view.in_flight_count(),
        });
        fields.insert("loop".to_owned(), stats);
    }
    let waits: Vec<&String> = step
        .open_tasks
        .values()
        .filter_map(|task| task.awaited.as_ref())
        .collect();
    if !waits.is_empty() {
        fields.insert("waits_for".to_owned(), json!(waits));
    }
    if !step.failures.is_empty() {
        let failures = step.failures.iter().map(|(iteration, failure)| {
            json!({
                "iteration": iteration,
                "task": failure.task,
                "attempt": failure.attempt,
                "error": failure.error,
            })
        });
        fields.insert("failures".to_owned(), failures.collect());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{EventLogFixture, task_error};

    #[test]
    fn ids_are_strings_and_every_documented_field_exists() {
        let mut log = EventLogFixture::started();
        let broken = task_error("BROKEN", "load");
        log.fail_run("load", broken);
        let view = RunView::from_events(&log.events);
        let name = RunName {
            id: ExecutionId(7),
            name: "demo".to_owned(),
        };
        let report_json = run_report(&view, &name, None, view.last_event_at);
        assert_eq!(report_json["execution_id"], "7");
        assert_eq!(report_json["status"], "FAILED");
        assert_eq!(report_json["error"]["code"], "BROKEN");
        assert_eq!(report_json["steps"][0]["failures"][0]["error"]["code"], "BROKEN");
        for key in [
            "result",
            "name",
            "path",
            "started_at",
            "finished_at",
            "duration_ms",
            "generation",
        ] {
            assert!(report_json.get(key).is_some(), "{key}");
        }
    }
}
