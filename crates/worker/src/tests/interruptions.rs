//! Failures between worker and server: stop, yield, expired lease, unavailable server, rejected report, shutdown.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use model::command::CommandWork;
use model::command::ReportEnd;
use model::event::EventKind;
use model::id::LeaseEpoch;
use model::outcome::Outcome;
use wire::{ClaimedCommand, ReportRequest, Verdict};

use super::fixture::{
    Behaviour, FakeReply, WorkerFixture, claimed_command, event_kinds, events_of_kind, failed_outcome, start_worker,
    step_error,
};

const TWO: &str = "- step: s\n  tool:\n  - a: {kind: shell, command: x}\n  - b: {kind: shell, command: y}\n";

async fn wait_for_calls(fixture: &WorkerFixture, times: usize) {
    let mut calls = fixture.tool.calls.subscribe();
    calls.wait_for(|calls| calls.len() >= times).await.unwrap();
}

/// Starts the command and waits for its first call.
async fn start_call(fixture: &WorkerFixture) {
    fixture.server.offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(fixture, 1).await;
}

/// Stops the worker and returns its reports.
async fn drain(fixture: WorkerFixture) -> Vec<ReportRequest> {
    fixture.stop.cancel();
    fixture.worker.await.unwrap();
    fixture.server.reports.borrow().clone()
}

#[tokio::test(start_paused = true)]
async fn stop_kills_the_tool_and_leaves_its_outcome_open() {
    let fixture = start_worker(TWO, |_| Behaviour::Hangs);
    start_call(&fixture).await;
    fixture.server.send_notice(5, Verdict::Stop);
    let reports = fixture.server.wait_for_end(5).await;
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_stop_is_abandoned_after_the_grace_period() {
    let fixture = start_worker(TWO, |_| {
        Behaviour::ReturnsAfter(Duration::from_secs(3600), Outcome::ok(1))
    });
    start_call(&fixture).await;
    let stopped_at = tokio::time::Instant::now();
    fixture.server.send_notice(5, Verdict::Stop);
    let reports = fixture.server.wait_for_end(5).await;
    assert!(stopped_at.elapsed() < Duration::from_secs(10));
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn yield_finishes_the_running_task_and_releases_the_command() {
    let fixture = start_worker(TWO, |_| {
        Behaviour::ReturnsAfter(Duration::from_secs(30), Outcome::ok(1))
    });
    start_call(&fixture).await;
    fixture.server.send_notice(5, Verdict::Yield);
    let reports = fixture.server.wait_for_end(5).await;
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 1);
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(fixture.tool.calls.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn yield_in_the_reply_to_a_report_is_applied() {
    let fixture = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    fixture.server.reply_with([FakeReply::Verdict(Verdict::Yield)]);
    let reports = fixture.run_pipeline().await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(fixture.tool.calls.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_command_is_dropped_without_another_report() {
    let fixture = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    fixture.server.reply_with([FakeReply::Fenced]);
    fixture.server.offer(claimed_command("s", 5, CommandWork::Pipeline));
    fixture.server.offer(claimed_command("s", 6, CommandWork::Pipeline));
    let reports = fixture.server.wait_for_end(6).await;
    assert_eq!(*fixture.server.report_attempts.borrow(), 3);
    let of_six = reports.iter().filter(|report| report.command.seq.0 == 6);
    let of_five = reports.iter().filter(|report| report.command.seq.0 == 5);
    assert_eq!(of_six.count() + of_five.count(), 2);
    assert_eq!(fixture.tool.calls.borrow().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_retried_until_the_server_is_available() {
    let fixture = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    fixture
        .server
        .reply_with([FakeReply::Unavailable, FakeReply::Unavailable, FakeReply::Unavailable]);
    let reports = fixture.run_pipeline().await;
    assert_eq!(*fixture.server.report_attempts.borrow(), 5);
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 2);
    assert_eq!(fixture.tool.calls.borrow().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_report_fails_its_step() {
    let fixture = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    fixture.server.reply_with([FakeReply::Refused]);
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "REPORT_REFUSED");
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_finishes_tasks_and_releases_commands() {
    let fixture = start_worker(TWO, |_| Behaviour::ReturnsAfter(Duration::from_secs(3), Outcome::ok(1)));
    start_call(&fixture).await;
    let reports = drain(fixture).await;
    let last = reports.last().unwrap();
    assert_eq!((last.end, last.free), (ReportEnd::Released, 0));
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_exceeds_the_drain_time_is_stopped_and_its_command_released() {
    let fixture = start_worker(TWO, |_| Behaviour::Hangs);
    start_call(&fixture).await;
    let reports = drain(fixture).await;
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
    assert_eq!(reports[0].end, ReportEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_earlier_claim_does_not_unregister_a_later_one() {
    let calls = AtomicU32::new(0);
    let fixture = start_worker(TWO, move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Behaviour::ReturnsAfter(Duration::from_secs(1), Outcome::ok(1)),
        _ => Behaviour::Hangs,
    });
    start_call(&fixture).await;
    let later = ClaimedCommand {
        lease_epoch: LeaseEpoch(2),
        ..claimed_command("s", 5, CommandWork::Pipeline)
    };
    fixture.server.offer(later);
    wait_for_calls(&fixture, 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    fixture.server.send_notice(5, Verdict::Stop);
    let reports = fixture.server.wait_for_end(5).await;
    let epochs: Vec<LeaseEpoch> = reports.iter().map(|report| report.lease_epoch).collect();
    assert_eq!(epochs, [LeaseEpoch(2)]);
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_host_cannot_start_is_retried_without_using_an_attempt() {
    let calls = AtomicU32::new(0);
    let fixture = start_worker(TWO, move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0..4 => Behaviour::Returns(failed_outcome(tools::HOST_EXHAUSTED)),
        _ => Behaviour::Returns(Outcome::ok(1)),
    });
    let reports = fixture.run_pipeline().await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Finished);
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 2);
    assert_eq!(events_of_kind(&reports, EventKind::AttemptFailed).len(), 0);
    let attempts: Vec<u32> = fixture.tool.calls.borrow().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_the_host_cannot_start_for_long_is_released_without_failure() {
    let fixture = start_worker(TWO, |_| Behaviour::Returns(failed_outcome(tools::HOST_EXHAUSTED)));
    let reports = fixture.run_pipeline().await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
}
