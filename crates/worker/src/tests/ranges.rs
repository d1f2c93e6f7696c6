//! Loops: concurrency, order, failures, delayed reports.

use std::time::Duration;

use model::command::CommandWork;
use model::command::ReportEnd;
use model::event::{EventBody, EventKind, LoopStarted};
use model::number_range::NumberRange;
use model::outcome::Outcome;
use model::playbook::{FailureMode, LoopMode};
use model::raw::RawJson;
use serde_json::{Value, json};
use wire::ReportRequest;

use super::fixture::{
    Behaviour, WorkerFixture, claimed_command, events_of_kind, failed_outcome, first_payload, payload, server_event,
    start_worker, step_error,
};

const WIDE: &str = "- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool: {kind: shell, command: x, input: {item: '{{ iter.item }}', i: '{{ iter.index }}'}}\n";
const PURE: &str =
    "- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool: {kind: noop, result: '{{ item }}'}\n";

pub(super) fn range_work(from: u64, to: u64, width: u32) -> CommandWork {
    CommandWork::Range { from, to, width }
}

/// Adds a started loop over `total` numbers to the log.
pub(super) fn start_number_loop(fixture: &WorkerFixture, total: u64) {
    let items: Vec<u64> = (0..total).map(|index| index * 10).collect();
    start_loop(fixture, total, |started| {
        started.collection = Some(RawJson::from_serializable(&items));
    });
}

/// Adds a started loop of `total` iterations to the log; `describe` sets its elements.
fn start_loop(fixture: &WorkerFixture, total: u64, describe: impl FnOnce(&mut LoopStarted)) {
    let mut started = LoopStarted {
        total,
        mode: LoopMode::Parallel,
        max_in_flight: 4,
        failure: FailureMode::FailFast,
        local: false,
        collection: None,
        collection_ref: None,
        range: None,
        sha256: String::new(),
        reused: None,
        more: false,
    };
    describe(&mut started);
    let body = EventBody::LoopStarted(Box::new(started));
    fixture.server.append_event(server_event(1, body));
}

fn event_indices(reports: &[ReportRequest], kind: EventKind) -> Vec<u64> {
    let events = events_of_kind(reports, kind);
    let mut indices: Vec<_> = events.iter().filter_map(|event| event.location.iteration).collect();
    indices.sort_unstable();
    indices
}

#[tokio::test(start_paused = true)]
async fn a_range_runs_each_index_once_within_its_width() {
    let fixture = start_worker(WIDE, |_| {
        Behaviour::ReturnsAfter(Duration::from_millis(100), Outcome::ok(1))
    });
    start_number_loop(&fixture, 12);
    let mut claimed = claimed_command("s", 5, range_work(0, 12, 4));
    claimed.finished = vec![3, 7];
    let reports = fixture.run_claimed(claimed).await;
    assert_eq!(
        event_indices(&reports, EventKind::IterationDone),
        [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    );
    assert_eq!(fixture.tool.concurrency.lock().unwrap().1, 4);
    let calls = fixture.tool.calls.borrow().clone();
    assert!(
        calls
            .iter()
            .all(|call| call.input["item"] == json!(call.input["i"].as_u64().unwrap() * 10))
    );
    let done = events_of_kind(&reports, EventKind::IterationDone);
    assert!(done.iter().all(|event| event.duration_ms == Some(100)));
    assert_eq!(reports.last().unwrap().end, ReportEnd::Finished);
}

#[tokio::test(start_paused = true)]
async fn ended_iterations_are_reported_together_after_a_short_delay() {
    let fixture = start_worker(WIDE, |call| {
        let millis = 5 * call.input["i"].as_u64().unwrap() + 1;
        Behaviour::ReturnsAfter(Duration::from_millis(millis), Outcome::ok(1))
    });
    start_number_loop(&fixture, 10);
    let reports = fixture.run(range_work(0, 10, 10)).await;
    assert!((2..=4).contains(&reports.len()), "{}", reports.len());
    assert_eq!(event_indices(&reports, EventKind::IterationDone).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn pure_iterations_are_reported_fifty_at_a_time() {
    let fixture = start_worker(PURE, |_| Behaviour::Panics);
    start_number_loop(&fixture, 200);
    let reports = fixture.run(range_work(0, 200, 16)).await;
    assert_eq!(
        event_indices(&reports, EventKind::IterationDone),
        (0..200).collect::<Vec<_>>()
    );
    let most = reports.iter().map(|report| report.events.len()).max();
    assert!(most.unwrap() <= 400, "{most:?}");
    assert!(reports.len() >= 3);
    assert!(reports.iter().all(|report| !report.events.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_the_loop_in_fail_fast_mode() {
    let steps = format!("{WIDE}  spec: {{policy: {{failure: {{mode: fail_fast}}}}}}\n");
    let fixture = start_worker(&steps, |call| {
        let outcome = if call.input["i"] == 1 {
            failed_outcome("NO")
        } else {
            Outcome::ok(1)
        };
        let millis = if call.input["i"] == 0 { 500 } else { 10 };
        Behaviour::ReturnsAfter(Duration::from_millis(millis), outcome)
    });
    start_number_loop(&fixture, 10);
    let reports = fixture.run(range_work(0, 10, 2)).await;
    assert_eq!(event_indices(&reports, EventKind::IterationFailed), [1]);
    assert_eq!(event_indices(&reports, EventKind::IterationDone), [0]);
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_stop_the_loop_in_best_effort_mode() {
    let steps = format!("{WIDE}  spec: {{policy: {{failure: {{mode: best_effort}}}}}}\n");
    let fixture = start_worker(&steps, |call| {
        let outcome = if call.input["i"] == 1 {
            failed_outcome("NO")
        } else {
            Outcome::ok(1)
        };
        Behaviour::Returns(outcome)
    });
    start_number_loop(&fixture, 10);
    let reports = fixture.run(range_work(0, 10, 2)).await;
    assert_eq!(event_indices(&reports, EventKind::IterationDone).len(), 9);
    assert_eq!(reports.last().unwrap().end, ReportEnd::Finished);
}

#[tokio::test(start_paused = true)]
async fn sequential_iterations_see_each_other_s_writes_and_record_each_effect_first() {
    let steps = "- step: s\n  loop: {in: [], iterator: item}\n  tool:\n    kind: shell\n    command: x\n    input: {sum: '{{ ctx.sum | default(0) }}'}\n    set: {ctx.sum: '{{ output.data + iter.item }}'}\n";
    let fixture = start_worker(steps, |call| Behaviour::Returns(Outcome::ok(call.input["sum"].clone())));
    start_number_loop(&fixture, 4);
    let reports = fixture.run(range_work(0, 4, 1)).await;
    let sums: Vec<Value> = fixture
        .tool
        .calls
        .borrow()
        .iter()
        .map(|call| call.input["sum"].clone())
        .collect();
    assert_eq!(sums, [json!(0), json!(0), json!(10), json!(30)]);
    assert_eq!(reports.len(), 4);
    assert_eq!(fixture.tool.concurrency.lock().unwrap().1, 1);
    let done = events_of_kind(&reports, EventKind::IterationDone);
    assert!(done.iter().all(|event| payload(event) == json!({})));
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_parallel_iteration_are_one_patch_in_its_end_event() {
    let steps = "- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool:\n  - a: {kind: noop, result: 1, set: {ctx.n: {$add: 1}, ctx.l: {$append: a}}}\n  - b: {kind: noop, result: 1, set: {ctx.n: {$add: 2}, ctx.l: {$append: b}}}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    start_number_loop(&fixture, 2);
    let reports = fixture.run(range_work(0, 2, 2)).await;
    for done in events_of_kind(&reports, EventKind::IterationDone) {
        let patch = payload(&done)["set_ctx"].clone();
        assert_eq!(patch, json!({"n": {"$add": 3}, "l": {"$extend": ["a", "b"]}}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_prepared_collection_is_stored_and_counted() {
    let steps = "- step: s\n  loop: {in: '{{ [0, 1, 2, 3][:n] }}', iterator: item}\n  tool: {kind: noop}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run(CommandWork::Prepare).await;
    let stored = first_payload(&reports, EventKind::ResultStored);
    assert_eq!(stored["result_ref"]["extracted"]["total"], 3);
    let bodies = fixture.bodies.0.lock().unwrap();
    assert_eq!(bodies.values().next().unwrap(), "[0,1,2]");
}

#[tokio::test(start_paused = true)]
async fn only_the_rule_of_a_prepared_range_is_stored() {
    let steps = "- step: s\n  loop: {in: '{{ range(n * 1000000, 0, -1) }}', iterator: item}\n  tool: {kind: noop}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run(CommandWork::Prepare).await;
    let stored = first_payload(&reports, EventKind::ResultStored);
    let rule = json!({"start": 3_000_000, "stop": 0, "step": -1});
    let extracted = json!({"total": 3_000_000, "range": rule});
    assert_eq!(stored["result_ref"]["extracted"], extracted);
    let bodies = fixture.bodies.0.lock().unwrap();
    let body = bodies.values().next().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(body).unwrap(), rule);
}

#[tokio::test(start_paused = true)]
async fn the_items_of_a_range_are_computed_from_its_rule() {
    let fixture = start_worker(PURE, |_| Behaviour::Panics);
    start_loop(&fixture, 900_000, |started| {
        started.range = NumberRange::new(1_000_000, 100_000, -1).ok();
    });
    let reports = fixture.run(range_work(700_000, 700_003, 2)).await;
    let done = events_of_kind(&reports, EventKind::TaskDone);
    let items: Vec<Value> = done
        .iter()
        .map(|event| payload(event)["outcome"]["result"].clone())
        .collect();
    assert_eq!(items, [300_000, 299_999, 299_998]);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_a_list_fails_the_step() {
    let steps = "- step: s\n  loop: {in: '{{ n }}', iterator: item}\n  tool: {kind: noop}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run(CommandWork::Prepare).await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "LOOP_NOT_A_LIST");
}
