//! Negative controls: each checker accepts valid data and reports data that violates its invariant.

use std::collections::BTreeMap;

use engine::ExecutionState;
use model::event::{Event, EventBody, EventKind};
use model::id::Seq;
use model::status::RunStatus;
use serde_json::{Value, json};
use wire::api::ExecutionDetail;

use crate::conformance::{Case, CaseDeployment, case_folders, run_case_in_virtual_time};
use crate::e2e::checks::{self, ApiView, LeftoverRows};
use crate::e2e::load::StartedExecution;
use crate::e2e::playbooks::Recipe;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: control}
workflow:
  - step: each
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: [{effect: {kind: noop, result: "{{ n }}"}}]
    next: {arcs: [{step: pay, when: "{{ event.name == 'loop.done' }}"}]}
  - step: pay
    tool: [{once: {kind: noop, result: paid}}]
"#;

/// A valid log.
fn sample_log() -> Vec<Event> {
    let folder = case_folders().into_iter().find(|case| case.ends_with("loops/empty"));
    let mut case = Case::load(&folder.expect("the case exists")).expect("the case can be read");
    PLAYBOOK.clone_into(&mut case.playbook);
    case.payload = None;
    let ran = run_case_in_virtual_time(&case, CaseDeployment::Memory).expect("the case runs");
    let root = ran.logs.into_iter().next();
    root.expect("the case has a root execution").events
}

fn fold_log(log: &[Event]) -> ExecutionState {
    let state = log.iter().fold(None, engine::fold);
    state.expect("the log can be replayed")
}

fn position_of(log: &[Event], kind: EventKind) -> usize {
    let position = log.iter().position(|event| event.kind() == kind);
    position.expect("the log has such an event")
}

/// Renumbers the events, so that only the intended change is invalid.
fn renumber(mut log: Vec<Event>) -> Vec<Event> {
    for (index, event) in log.iter_mut().enumerate() {
        event.seq = Seq(index as u64 + 1);
        event.cause_seq = (index > 0).then_some(Seq(index as u64));
    }
    log
}

fn violation_number(done: Result<(), crate::sim::Violation>) -> Option<u32> {
    done.err().map(|violation| violation.number)
}

fn check_log_number(log: &[Event]) -> Option<u32> {
    violation_number(checks::check_log(PLAYBOOK, log).map(drop))
}

fn api_view(log: &[Event]) -> ApiView {
    let state = fold_log(log);
    let value = ciborium::Value::serialized(&state).expect("a state can be serialized");
    let status = state.status();
    ApiView {
        statuses: vec![status; 4],
        seqs: vec![state.seq; 3],
        events: log.iter().map(|event| (event.kind().to_string(), event.seq)).collect(),
        replayed: (state.seq, status, to_json(&value)),
    }
}

fn to_json(value: &ciborium::Value) -> Value {
    match value {
        ciborium::Value::Map(entries) => {
            let entries = entries.iter().enumerate().map(|(index, (key, value))| {
                let key = key.as_text().map_or(index.to_string(), str::to_owned);
                (key, to_json(value))
            });
            Value::Object(entries.collect())
        }
        ciborium::Value::Array(items) => items.iter().map(to_json).collect(),
        ciborium::Value::Text(text) => json!(text),
        ciborium::Value::Bool(flag) => json!(flag),
        ciborium::Value::Integer(number) => {
            json!(u64::try_from(i128::from(*number)).unwrap_or_default())
        }
        ciborium::Value::Float(number) => json!(number),
        _ => Value::Null,
    }
}

#[test]
fn a_lawful_log_passes() {
    let log = sample_log();
    assert_eq!(checks::check_log(PLAYBOOK, &log), Ok(fold_log(&log)));
    assert_eq!(checks::check_single_end(&log), Ok(()));
    assert_eq!(
        checks::check_no_leftovers(&fold_log(&log), &LeftoverRows::default()),
        Ok(())
    );
    assert_eq!(checks::check_routes(&fold_log(&log), &log, &api_view(&log)), Ok(()));
    assert_eq!(checks::check_replay(&fold_log(&log), &api_view(&log)), Ok(()));
}

#[test]
fn a_missing_event_is_a_gap() {
    let mut log = sample_log();
    log.remove(4);
    assert_eq!(check_log_number(&log), Some(2));
}

#[test]
fn an_iteration_that_ends_twice_is_reported() {
    let mut log = sample_log();
    let at = position_of(&log, EventKind::IterationDone);
    log.insert(at, log[at].clone());
    assert!(matches!(check_log_number(&renumber(log)), Some(21 | 33)));
}

#[test]
fn a_loop_that_ends_too_early_is_reported() {
    let mut log = sample_log();
    let at = position_of(&log, EventKind::IterationDone);
    log.remove(at);
    assert_eq!(check_log_number(&renumber(log)), Some(21));
}

#[test]
fn a_second_end_is_reported() {
    let mut log = sample_log();
    let at = position_of(&log, EventKind::PlaybookFinished);
    log.insert(at, log[at].clone());
    let log = renumber(log);
    assert_eq!(violation_number(checks::check_single_end(&log)), Some(10));
    assert_eq!(check_log_number(&log), Some(10));
}

#[test]
fn a_log_without_an_end_is_reported() {
    let mut log = sample_log();
    log.truncate(log.len() - 3);
    assert_eq!(violation_number(checks::check_single_end(&log)), Some(10));
    let unfinished = checks::check_no_leftovers(&fold_log(&log), &LeftoverRows::default());
    assert_eq!(violation_number(unfinished), Some(11));
}

#[test]
fn a_row_left_behind_is_reported() {
    let state = fold_log(&sample_log());
    for left in [
        LeftoverRows {
            commands: 1,
            ..LeftoverRows::default()
        },
        LeftoverRows {
            timers: 1,
            ..LeftoverRows::default()
        },
        LeftoverRows {
            messages: 1,
            ..LeftoverRows::default()
        },
    ] {
        assert_eq!(violation_number(checks::check_no_leftovers(&state, &left)), Some(11));
    }
}

#[test]
fn a_route_with_another_response_is_reported() {
    let (log, state) = (sample_log(), fold_log(&sample_log()));
    let mut other = api_view(&log);
    other.statuses[2] = RunStatus::Running;
    assert_eq!(violation_number(checks::check_routes(&state, &log, &other)), Some(12));
    let mut other = api_view(&log);
    other.seqs[0] = Seq(3);
    assert_eq!(violation_number(checks::check_routes(&state, &log, &other)), Some(12));
    let mut other = api_view(&log);
    other.events.pop();
    assert_eq!(violation_number(checks::check_routes(&state, &log, &other)), Some(12));
}

#[test]
fn a_replay_that_folds_to_something_else_is_reported() {
    let (log, state) = (sample_log(), fold_log(&sample_log()));
    let mut other = api_view(&log);
    other.replayed.2["ctx"] = json!({"forged": true});
    assert_eq!(violation_number(checks::check_replay(&state, &other)), Some(44));
    let mut other = api_view(&log);
    other.replayed.0 = Seq(1);
    assert_eq!(violation_number(checks::check_replay(&state, &other)), Some(44));
}

/// The effects of all tasks that the log records as done, each once.
fn effects_of(log: &[Event]) -> BTreeMap<String, u32> {
    let done = log.iter().filter(|event| matches!(event.body, EventBody::TaskDone(_)));
    done.map(|event| (pipeline::idempotency_key(event.execution_id, &event.location), 1))
        .collect()
}

#[test]
fn an_effect_that_was_not_recorded_is_reported() {
    let log = sample_log();
    let mut effects = effects_of(&log);
    assert_eq!(checks::check_effects_recorded(&log, &effects), Ok(()));
    let first = effects.keys().next().cloned().expect("the log has effects");
    effects.remove(&first);
    assert_eq!(
        violation_number(checks::check_effects_recorded(&log, &effects)),
        Some(36)
    );
}

#[test]
fn a_repeated_at_most_once_effect_is_reported() {
    let log = sample_log();
    let mut effects = effects_of(&log);
    for count in effects.values_mut() {
        *count = 2;
    }
    assert_eq!(
        violation_number(checks::check_effects_recorded(&log, &effects)),
        Some(37)
    );
}

#[test]
fn an_effect_without_a_run_is_reported() {
    let log = sample_log();
    let logs = BTreeMap::from([(log[0].execution_id, log.clone())]);
    let mut effects = effects_of(&log);
    assert_eq!(checks::check_effect_causes(&logs, &effects), Ok(()));
    effects.insert("77/other:1/effect:1".to_owned(), 1);
    assert_eq!(violation_number(checks::check_effect_causes(&logs, &effects)), Some(36));
}

#[test]
fn a_projection_that_changes_when_rebuilt_is_reported() {
    let before = ["a\nb".to_owned(), String::new()];
    assert_eq!(checks::check_projections(&before, &before), Ok(()));
    let after = ["a\nc".to_owned(), String::new()];
    assert_eq!(violation_number(checks::check_projections(&before, &after)), Some(46));
    let longer = ["a\nb\nc".to_owned(), String::new()];
    assert_eq!(violation_number(checks::check_projections(&before, &longer)), Some(46));
}

#[test]
fn a_secret_in_any_text_is_reported() {
    let clean = [("here", "nothing"), ("there", "to see")];
    assert_eq!(checks::check_secret_absent(&clean, "hunter2"), Ok(()));
    let leaking = [("here", "nothing"), ("there", "password=hunter2")];
    assert_eq!(
        violation_number(checks::check_secret_absent(&leaking, "hunter2")),
        Some(56)
    );
}

#[test]
fn an_event_that_is_never_published_is_reported() {
    assert_eq!(checks::check_all_published(0), Ok(()));
    assert_eq!(violation_number(checks::check_all_published(1)), Some(48));
}

#[test]
fn a_run_with_a_wrong_end_is_reported() {
    let log = sample_log();
    let started = StartedExecution {
        id: log[0].execution_id,
        recipe: Recipe::Jump,
        n: 5,
    };
    let response = |status: &str, result: Value| -> ExecutionDetail {
        let id = started.id.to_string();
        let execution = json!({
            "execution_id": id, "status": status, "name": "x", "path": "x", "version": 1, "hash": "0", "seq": 1,
            "generation": 1, "cancelling": false, "started_at": "2026-01-01T00:00:00Z",
        });
        let response = json!({
            "execution_id": id, "status": status, "result": result, "error": null, "execution": execution,
        });
        serde_json::from_value(response).expect("a response in the format of the route")
    };
    assert_eq!(checks::check_end(&started, &response("COMPLETED", json!(3))), Ok(()));
    let failed = checks::check_end(&started, &response("FAILED", json!(3)));
    assert_eq!(violation_number(failed), Some(50));
    let wrong = checks::check_end(&started, &response("COMPLETED", json!(2)));
    assert_eq!(violation_number(wrong), Some(50));
}
