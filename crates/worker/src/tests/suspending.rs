//! Suspended tasks: they free their slot, and the awaited event ends them.

use std::time::Duration;

use model::command::ReportEnd;
use model::command::{CommandWork, PipelineStage};
use model::event::{AwaitTarget, EventBody, EventKind, SignalReceived, TaskStarted, WaitFor};
use model::id::Seq;
use model::outcome::Outcome;
use model::raw::RawJson;
use model::time::Time;
use serde_json::json;

use super::fixture::{
    Behaviour, claimed_command, continuation_at, event_kinds, events_of_kind, failed_outcome, first_payload, payload,
    resume_point, server_event, start_worker,
};
use super::ranges::{range_work, start_number_loop};

#[tokio::test(start_paused = true)]
async fn a_child_is_requested_and_the_slot_freed() {
    let steps = "- step: s\n  tool: {kind: playbook, path: ./child.yaml, input: {x: '{{ n }}'}, return_step: last}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run_pipeline().await;
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
    assert_eq!((reports[0].end, reports[0].free), (ReportEnd::Finished, 1));
    let child = first_payload(&reports, EventKind::TaskStarted)["awaits"]["child"].clone();
    assert_eq!(
        child,
        json!({"path": "./child.yaml", "input": {"x": 3}, "return_step": "last", "wait": true})
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_sleeps_in_its_slot_and_a_long_one_frees_it() {
    let steps = "- step: short\n  tool: {kind: wait, duration: 2s}\n- step: long\n  tool: {kind: wait, duration: 1h}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let start = tokio::time::Instant::now();
    let short = claimed_command("short", 5, CommandWork::Pipeline);
    let reports = fixture.run_claimed(short).await;
    assert!(start.elapsed() >= Duration::from_secs(2));
    // Reported before the wait, so that a worker crash during the wait does not count against the task.
    assert_eq!(
        event_kinds(&reports),
        [["step.started", "task.started"], ["task.done", "step.done"]]
    );
    let long = claimed_command("long", 6, CommandWork::Pipeline);
    let reports = fixture.run_claimed(long).await;
    assert!(start.elapsed() < Duration::from_secs(20));
    let wait = payload(&events_of_kind(&reports, EventKind::TaskStarted)[1])["awaits"]["wait"].clone();
    assert!(wait["until"].is_string());
}

#[tokio::test(start_paused = true)]
async fn the_awaited_event_is_the_outcome_of_the_waiting_task() {
    let steps = "- step: s\n  tool:\n  - ask: {kind: wait, signal: go, timeout: 1h}\n  - use: {kind: noop, result: '{{ ask.result.yes }}'}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let started = TaskStarted {
        inputs: None,
        request: None,
        awaits: Some(Box::new(AwaitTarget::Wait(WaitFor {
            until: None,
            signal: Some("go".into()),
            times_out: true,
        }))),
        approval: None,
    };
    fixture
        .server
        .append_event(server_event(40, EventBody::TaskStarted(started)));
    fixture.server.append_event(server_event(
        41,
        EventBody::SignalReceived(SignalReceived {
            name: "go".into(),
            payload: Some(RawJson::from_serializable(&json!({"yes": "indeed"}))),
            child: None,
        }),
    ));
    let stage = PipelineStage::WaitEnded {
        by: Seq(41),
        since: Seq(40),
    };
    let mut claimed = claimed_command("s", 5, CommandWork::Pipeline);
    claimed.resume = vec![resume_point(None, continuation_at("ask", 1, stage))];
    let reports = fixture.run_claimed(claimed).await;
    let done = events_of_kind(&reports, EventKind::TaskDone);
    assert_eq!(payload(&done[1])["outcome"]["result"], "indeed");
}

#[tokio::test(start_paused = true)]
async fn a_long_retry_delay_suspends_and_still_counts_toward_the_width() {
    let steps = "- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool:\n  - a:\n      kind: shell\n      command: x\n      spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, delay: 60}}]}}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(failed_outcome("NO")));
    start_number_loop(&fixture, 5);
    let reports = fixture.run(range_work(0, 5, 2)).await;
    assert_eq!(events_of_kind(&reports, EventKind::IterationStarted).len(), 2);
    assert_eq!(events_of_kind(&reports, EventKind::IterationDone).len(), 0);
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_iteration_continues_as_its_own_command() {
    let steps = "- step: s\n  loop: {in: [], iterator: item, spec: {mode: parallel}}\n  tool: {kind: shell, command: x, input: {item: '{{ item }}'}}\n";
    let fixture = start_worker(steps, |_| Behaviour::Returns(Outcome::ok(1)));
    start_number_loop(&fixture, 5);
    let stage = PipelineStage::Retrying {
        due: Time(0),
        suspended: false,
    };
    let mut claimed = claimed_command("s", 5, CommandWork::Iteration { index: 3 });
    claimed.resume = vec![resume_point(Some(3), continuation_at("s", 2, stage))];
    let reports = fixture.run_claimed(claimed).await;
    assert_eq!(
        event_kinds(&reports),
        [[
            "task.attempt.started",
            "task.attempt.done",
            "task.done",
            "loop.iteration.done"
        ]]
    );
    let call = fixture.tool.calls.borrow()[0].clone();
    assert_eq!((call.attempt, &call.input["item"]), (3, &json!(30)));
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_recorded_as_rendered() {
    let steps = "- step: s\n  tool: {kind: wait, approval: {title: 'Ship {{ n }}?', form: {properties: {n: {default: '{{ n }}'}}}}}\n";
    let fixture = start_worker(steps, |_| Behaviour::Panics);
    let reports = fixture.run_pipeline().await;
    let started = first_payload(&reports, EventKind::TaskStarted);
    assert_eq!(started["awaits"]["wait"]["signal"], "s");
    let form = json!({"properties": {"n": {"default": 3}}});
    assert_eq!(started["approval"], json!({"title": "Ship 3?", "form": form}));
}

#[tokio::test(start_paused = true)]
async fn a_signal_without_an_approval_records_none() {
    let fixture = start_worker("- step: s\n  tool: {kind: wait, signal: go}\n", |_| Behaviour::Panics);
    let reports = fixture.run_pipeline().await;
    let started = first_payload(&reports, EventKind::TaskStarted);
    assert_eq!(started["awaits"]["wait"]["signal"], "go");
    assert!(started["approval"].is_null());
}
