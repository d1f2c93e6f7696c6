//! Plain steps: number of reports, policies, stored results.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use model::command::ReportEnd;
use model::command::{CommandWork, Continuation, OutcomePointer, PipelineCursor, PipelineStage};
use model::event::{Event, EventBody, EventKind, EventLocation, EventSource, TaskEnded};
use model::id::Seq;
use model::outcome::Outcome;
use model::playbook::Directive;
use model::raw::RawJson;
use serde_json::json;
use tokio::sync::watch;

use super::fixture::{
    Behaviour, FakeReply, WorkerFixture, claimed_command, continuation_at, event_kinds, events_of_kind, failed_outcome,
    first_payload, payload, playbook, resume_point, server_event, start_worker, start_worker_for, step_error,
};

const PLAIN: &str = "- step: s\n  tool: {kind: noop, result: {x: '{{ n }}', home: '{{ env.HOME }}'}}\n";

fn never_called(_: &tools::Call) -> Behaviour {
    panic!("no tool with effects is called")
}

#[tokio::test(start_paused = true)]
async fn a_plain_step_needs_one_report() {
    let fixture = start_worker(PLAIN, never_called);
    let reports = fixture.run_pipeline().await;
    assert_eq!(
        event_kinds(&reports),
        [["step.started", "task.started", "task.done", "step.done"]]
    );
    assert_eq!((reports[0].end, reports[0].free), (ReportEnd::Finished, 1));
    let done = first_payload(&reports, EventKind::TaskDone);
    assert_eq!(done["outcome"]["result"], json!({"x": 3, "home": "/home/u"}));
    assert_eq!(done["outcome"]["meta"]["attempt"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_assigned_in_a_reply_runs_next() {
    let fixture = start_worker(PLAIN, never_called);
    let next = claimed_command("s", 9, CommandWork::Pipeline);
    fixture.server.reply_with([FakeReply::Assigns(Box::new(next))]);
    fixture.server.offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = fixture.server.wait_for_end(9).await;
    assert_eq!(reports.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_effect_is_reported_before_the_next_task_and_the_last_with_the_step() {
    let steps =
        "- step: s\n  tool:\n  - a: {kind: shell, command: x}\n  - b: {kind: shell, command: 'echo {{ a.result }}'}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(Outcome::ok(1)));
    let reports = fixture.run_pipeline().await;
    assert_eq!(
        event_kinds(&reports),
        [
            vec!["step.started", "task.started", "task.done"],
            vec!["task.started", "task.done", "step.done"]
        ]
    );
    let calls = fixture.tool.calls.borrow().clone();
    let pieces = &calls[1].pieces["command"][0];
    assert_eq!(
        *pieces,
        [
            language::template::Piece::Text("echo ".to_owned()),
            language::template::Piece::Value(json!(1))
        ]
    );
    assert_eq!(fixture.lines.0.lock().unwrap().len(), 2);
}

/// Starts a worker whose calls defer an action. Returns it with the number of reports sent when each action ran.
fn start_deferring_worker(outcome: fn() -> Outcome) -> (WorkerFixture, Arc<Mutex<Vec<u32>>>) {
    let steps = "- step: s\n  tool: {kind: shell, command: x}\n";
    let done: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (noted, attempts): (_, Arc<OnceLock<watch::Receiver<u32>>>) = (done.clone(), Arc::default());
    let attempts_cell = attempts.clone();
    let fixture = start_worker(steps, move |call| {
        let (noted, attempts_cell) = (noted.clone(), attempts_cell.clone());
        call.deferred.defer(async move {
            let attempts = attempts_cell.get().map_or(0, |attempts| *attempts.borrow());
            noted.lock().unwrap().push(attempts);
        });
        Behaviour::Returns(outcome())
    });
    attempts.set(fixture.server.report_attempts.subscribe()).unwrap();
    (fixture, done)
}

#[tokio::test(start_paused = true)]
async fn deferred_work_of_a_call_runs_after_its_outcome_is_recorded() {
    let (fixture, done) = start_deferring_worker(|| Outcome::ok(1));
    let reports = fixture.run_pipeline().await;
    assert_eq!(
        event_kinds(&reports),
        [vec!["step.started", "task.started", "task.done"], vec!["step.done"]]
    );
    assert_eq!(*done.lock().unwrap(), [1], "runs after the first report");
}

#[tokio::test(start_paused = true)]
async fn deferred_work_of_a_call_does_not_run_if_its_outcome_is_not_recorded() {
    let (fixture, done) = start_deferring_worker(|| Outcome::ok(1));
    fixture.server.reply_with([FakeReply::Fenced]);
    fixture.server.offer(claimed_command("s", 5, CommandWork::Pipeline));
    fixture.server.offer(claimed_command("s", 6, CommandWork::Pipeline));
    fixture.server.wait_for_end(6).await;
    assert_eq!(*done.lock().unwrap(), [2], "runs for the second command only");
    let (fixture, done) = start_deferring_worker(|| failed_outcome("NO"));
    fixture.run_pipeline().await;
    assert_eq!(*done.lock().unwrap(), [0; 0], "does not run for a failed call");
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_and_its_attempts_are_durable_one_by_one() {
    let steps = "- step: s\n  tool:\n  - a:\n      kind: shell\n      command: x\n      spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 2}}]}}\n";
    let fixture = start_worker(steps, |call| {
        Behaviour::Returns(if call.attempt < 3 {
            failed_outcome("NO")
        } else {
            Outcome::ok("yes")
        })
    });
    let start = tokio::time::Instant::now();
    let reports = fixture.run_pipeline().await;
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert_eq!(
        event_kinds(&reports),
        [
            vec![
                "step.started",
                "task.started",
                "task.attempt.started",
                "task.attempt.failed",
                "policy.task.evaluated"
            ],
            vec!["task.attempt.started", "task.attempt.failed", "policy.task.evaluated"],
            vec!["task.attempt.started", "task.attempt.done", "task.done", "step.done"]
        ]
    );
    let calls = fixture.tool.calls.borrow().clone();
    assert_eq!(calls[0].idempotency_key, calls[2].idempotency_key);
}

#[tokio::test(start_paused = true)]
async fn exhausted_retries_fail_the_step_with_the_line_of_the_task() {
    let steps = "- step: s\n  tool:\n  - a:\n      kind: shell\n      command: x\n      spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2, delay: 0}}]}}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(failed_outcome("NO")));
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "NO");
    assert_eq!((&error["step"], &error["task"]), (&json!("s"), &json!("a")));
    assert_eq!(error["line"], 9);
    assert_eq!(fixture.tool.calls.borrow().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pagination_uses_jumps_break_and_locals() {
    let steps = "- step: s\n  tool:\n  - page:\n      kind: shell\n      command: x\n      input: {page: '{{ next | default(1) }}'}\n  - more:\n      kind: noop\n      result: '{{ page.result }}'\n      set: {next: '{{ output.data + 1 }}'}\n      spec: {policy: {rules: [{when: '{{ outcome.result < 3 }}', then: {do: jump, to: page}}, {else: {then: {do: break}}}]}}\n  - never: {kind: shell, command: y}\n";
    let fixture = start_worker(steps, |call| {
        Behaviour::Returns(Outcome::ok(call.input["page"].clone()))
    });
    let reports = fixture.run_pipeline().await;
    let pages: Vec<_> = fixture
        .tool
        .calls
        .borrow()
        .iter()
        .map(|call| call.input["page"].clone())
        .collect();
    assert_eq!(pages, [json!(1), json!(2), json!(3)]);
    assert_eq!(events_of_kind(&reports, EventKind::StepDone).len(), 1);
    let visits: Vec<_> = events_of_kind(&reports, EventKind::TaskStarted)
        .iter()
        .map(|event| event.location.visit)
        .collect();
    assert_eq!(visits, [1, 1, 2, 2, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_cannot_be_rendered_fails_the_task_without_a_call() {
    let steps = "- step: s\n  tool: {kind: shell, command: '{{ nothing.there }}'}\n";
    let fixture = start_worker(steps, never_called);
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "TEMPLATE_UNDEFINED");
    assert_eq!(error["line"], 7);
    assert_eq!(events_of_kind(&reports, EventKind::TaskStarted).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_is_a_failed_task() {
    let steps = "- step: s\n  tool: {kind: shell, command: x}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "TOOL_PANIC");
}

const ONCE: &str = "- step: s\n  tool: {kind: shell, command: x, spec: {effect: at_most_once}}\n";

#[tokio::test(start_paused = true)]
async fn the_start_of_an_at_most_once_effect_is_reported_before_the_call() {
    let fixture = start_worker(ONCE, |_| Behaviour::Returns(Outcome::ok(1)));
    let reports = fixture.run_pipeline().await;
    assert_eq!(
        event_kinds(&reports),
        [["step.started", "task.started"], ["task.done", "step.done"]]
    );
}

#[tokio::test(start_paused = true)]
async fn an_at_most_once_effect_that_may_have_happened_is_not_repeated() {
    let fixture = start_worker(ONCE, never_called);
    let mut claimed = claimed_command("s", 5, CommandWork::Pipeline);
    claimed.resume = vec![resume_point(None, continuation_at("s", 1, PipelineStage::Started))];
    let reports = fixture.run_claimed(claimed).await;
    assert_eq!(
        event_kinds(&reports),
        [["task.failed", "policy.task.evaluated", "step.failed"]]
    );
    let error = step_error(&reports);
    assert_eq!(error["code"], "UNKNOWN_OUTCOME");
}

#[tokio::test(start_paused = true)]
async fn an_at_least_once_attempt_runs_again_with_the_same_key() {
    let steps = "- step: s\n  tool: {kind: shell, command: x}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(Outcome::ok(1)));
    let mut claimed = claimed_command("s", 5, CommandWork::Pipeline);
    claimed.resume = vec![resume_point(None, continuation_at("s", 1, PipelineStage::Started))];
    let reports = fixture.run_claimed(claimed).await;
    assert_eq!(event_kinds(&reports), [["task.done", "step.done"]]);
    assert_eq!(&*fixture.tool.calls.borrow()[0].idempotency_key, "7/s:1/s:1");
}

fn task_end_event(seq: u64, task: &str, outcome: &Outcome, set_iter: &serde_json::Value) -> Event {
    let body = EventBody::TaskDone(Box::new(TaskEnded {
        outcome: RawJson::from_serializable(outcome),
        result_ref: None,
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: Some(RawJson::from_serializable(set_iter)),
        set_ctx: None,
        set: None,
    }));
    Event {
        location: EventLocation {
            task: Some(task.into()),
            ..EventLocation::default()
        },
        source: EventSource::Worker,
        ..server_event(seq, body)
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_continues_after_the_last_recorded_task_and_sees_its_result() {
    let steps = "- step: s\n  tool:\n  - a: {kind: shell, command: x, set: {iter.page: 2}}\n  - b: {kind: noop, result: '{{ a.result + iter.page + _prev.result }}'}\n";
    let fixture = start_worker(steps, never_called);
    fixture
        .server
        .append_event(task_end_event(30, "a", &Outcome::ok(40), &json!({"page": 2})));
    let pointer = OutcomePointer {
        seq: Seq(30),
        ok: true,
        bytes: 10,
        page: None,
        outside: None,
    };
    let continuation = Continuation {
        cursor: PipelineCursor::After("a".into()),
        visits: [("a".into(), 1)].into(),
        outcomes: [("a".into(), pointer)].into(),
        last: Some("a".into()),
        iter_writes: vec![Seq(30)],
        ..Continuation::default()
    };
    let mut claimed = claimed_command("s", 5, CommandWork::Pipeline);
    claimed.resume = vec![resume_point(None, continuation)];
    let reports = fixture.run_claimed(claimed).await;
    assert_eq!(event_kinds(&reports), [["task.started", "task.done", "step.done"]]);
    let done = first_payload(&reports, EventKind::TaskDone);
    assert_eq!(done["outcome"]["result"], 82);
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_stored_before_it_is_referenced_and_rules_still_see_it() {
    let steps = "- step: s\n  tool:\n  - a:\n      kind: shell\n      command: x\n      spec: {policy: {rules: [{when: '{{ outcome.result.rows | length == 20000 }}', then: {do: continue}}, {else: {then: {do: fail}}}]}}\n  - b: {kind: noop, result: '{{ a.rows | length }}'}\n";
    let fixture = start_worker(steps, |_| {
        Behaviour::Returns(Outcome::ok(json!({"status": "full", "rows": vec!["row"; 20_000]})))
    });
    let reports = fixture.run_pipeline().await;
    let done = events_of_kind(&reports, EventKind::TaskDone);
    let first = payload(&done[0]);
    assert_eq!(first["outcome"]["result"], json!(null));
    assert_eq!(first["result_ref"]["extracted"]["status"], "full");
    assert_eq!(payload(&done[1])["outcome"]["result"], 20_000);
    assert_eq!(fixture.bodies.0.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_large_write_is_recorded_by_reference_and_read_back_through_it() {
    let steps = "- step: s\n  tool:\n  - a:\n      kind: shell\n      command: x\n      set: {ctx.page: '{{ output.data }}', ctx.small: 1}\n  - b: {kind: noop, result: '{{ ctx.page | length }}'}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(Outcome::ok("x".repeat(5_000))));
    let reports = fixture.run_pipeline().await;
    let done = events_of_kind(&reports, EventKind::TaskDone);
    let written = payload(&done[0])["set_ctx"].clone();
    assert_eq!(written["page"]["kind"], "result_ref");
    assert_eq!(written["small"], 1);
    assert_eq!(payload(&done[1])["outcome"]["result"], 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_playbook_s_limit_fails_with_its_code() {
    let text = playbook("- step: s\n  tool: {kind: shell, command: x}\n");
    let text = format!("{text}executor: {{spec: {{policy: {{limits: {{max_payload_bytes: 1000}}}}}}}}\n");
    let fixture = start_worker_for(&text, |_| Behaviour::Returns(Outcome::ok("x".repeat(2_000))));
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "LIMIT_PAYLOAD");
}

#[tokio::test(start_paused = true)]
async fn a_long_input_is_recorded_as_size_and_hash() {
    let steps = "- step: s\n  input: {a: 1}\n  tool: {kind: noop, input: {text: \"{{ 'x' * n * 1000 }}\"}}\n";
    let fixture = start_worker(steps, never_called);
    let reports = fixture.run_pipeline().await;
    let inputs = first_payload(&reports, EventKind::TaskStarted)["inputs"].clone();
    assert_eq!(inputs["truncated"], true);
    assert_eq!(inputs["sha256"].as_str().unwrap().len(), 64);
    let done = first_payload(&reports, EventKind::TaskDone);
    assert_eq!(done["outcome"]["result"]["a"], 1);
}
