//! Failures between worker and server: stop, yield, expired lease, unavailable server, rejected report, shutdown.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use model::command::CommandWork;
use model::command::ReportEnd;
use model::event::EventKind;
use model::id::LeaseEpoch;
use model::outcome::Outcome;
use wire::{ClaimedCommand, Verdict};

use super::fixture::{
    Behaviour, FakeReply, WorkerFixture, claimed_command, event_kinds, events_of_kind,
    failed_outcome, payload, start_worker,
};

const TWO: &str =
    "- step: s\n  tool:\n  - a: {kind: shell, command: x}\n  - b: {kind: shell, command: y}\n";

async fn wait_for_calls(house: &WorkerFixture, times: usize) {
    let mut calls = house.tool.calls.subscribe();
    calls.wait_for(|calls| calls.len() >= times).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_kills_the_tool_and_leaves_its_outcome_open() {
    let house = start_worker(TWO, |_| Behaviour::Hangs);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    house.server.send_notice(5, Verdict::Stop);
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_tool_deaf_to_stop_is_left_within_the_grace() {
    let house = start_worker(TWO, |_| {
        Behaviour::ReturnsAfter(Duration::from_secs(3600), Outcome::ok(1))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    let told = tokio::time::Instant::now();
    house.server.send_notice(5, Verdict::Stop);
    let reports = house.server.wait_for_end(5).await;
    assert!(told.elapsed() < Duration::from_secs(10));
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn yield_lets_the_running_task_end_and_gives_the_rest_back() {
    let house = start_worker(TWO, |_| {
        Behaviour::ReturnsAfter(Duration::from_secs(30), Outcome::ok(1))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    house.server.send_notice(5, Verdict::Yield);
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 1);
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(house.tool.calls.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_that_says_yield_is_heard_too() {
    let house = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    house
        .server
        .reply_with([FakeReply::Verdict(Verdict::Yield)]);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(house.tool.calls.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_command_is_dropped_without_another_word() {
    let house = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    house.server.reply_with([FakeReply::Fenced]);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    house
        .server
        .offer(claimed_command("s", 6, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(6).await;
    assert_eq!(*house.server.report_attempts.borrow(), 3);
    let of_six = reports.iter().filter(|report| report.command.seq.0 == 6);
    let of_five = reports.iter().filter(|report| report.command.seq.0 == 5);
    assert_eq!(of_six.count() + of_five.count(), 2);
    assert_eq!(house.tool.calls.borrow().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_server_is_asked_until_it_takes_the_outcome() {
    let house = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    house.server.reply_with([
        FakeReply::Unavailable,
        FakeReply::Unavailable,
        FakeReply::Unavailable,
    ]);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(*house.server.report_attempts.borrow(), 5);
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 2);
    assert_eq!(house.tool.calls.borrow().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_report_fails_its_step_rather_than_hold_it_for_ever() {
    let house = start_worker(TWO, |_| Behaviour::Returns(Outcome::ok(1)));
    house.server.reply_with([FakeReply::Refused]);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let error = payload(&events_of_kind(&reports, EventKind::StepFailed)[0])["error"].clone();
    assert_eq!(error["code"], "REPORT_REFUSED");
}

#[tokio::test(start_paused = true)]
async fn a_worker_told_to_end_lets_tasks_end_and_gives_back_what_is_left() {
    let house = start_worker(TWO, |_| {
        Behaviour::ReturnsAfter(Duration::from_secs(3), Outcome::ok(1))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    house.stop.cancel();
    house.worker.await.unwrap();
    let reports = house.server.reports.borrow().clone();
    let last = reports.last().unwrap();
    assert_eq!((last.end, last.free), (ReportEnd::Released, 0));
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlasts_the_worker_s_end_is_stopped_and_given_back() {
    let house = start_worker(TWO, |_| Behaviour::Hangs);
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    house.stop.cancel();
    house.worker.await.unwrap();
    let reports = house.server.reports.borrow().clone();
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
    assert_eq!(reports[0].end, ReportEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_earlier_claim_does_not_forget_a_later_one_of_the_same_command() {
    let calls = AtomicU32::new(0);
    let house = start_worker(TWO, move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Behaviour::ReturnsAfter(Duration::from_secs(1), Outcome::ok(1)),
        _ => Behaviour::Hangs,
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    wait_for_calls(&house, 1).await;
    let later = ClaimedCommand {
        lease_epoch: LeaseEpoch(2),
        ..claimed_command("s", 5, CommandWork::Pipeline)
    };
    house.server.offer(later);
    wait_for_calls(&house, 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    house.server.send_notice(5, Verdict::Stop);
    let reports = house.server.wait_for_end(5).await;
    let epochs: Vec<LeaseEpoch> = reports.iter().map(|report| report.lease_epoch).collect();
    assert_eq!(epochs, [LeaseEpoch(2)]);
    assert_eq!(reports[0].end, ReportEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_machine_cannot_begin_is_begun_later_and_uses_up_no_attempt() {
    let calls = AtomicU32::new(0);
    let house = start_worker(TWO, move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0..4 => Behaviour::Returns(failed_outcome(tools::HOST_EXHAUSTED)),
        _ => Behaviour::Returns(Outcome::ok(1)),
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Finished);
    assert_eq!(events_of_kind(&reports, EventKind::TaskDone).len(), 2);
    assert_eq!(events_of_kind(&reports, EventKind::AttemptFailed).len(), 0);
    let attempts: Vec<u32> = house
        .tool
        .calls
        .borrow()
        .iter()
        .map(|call| call.attempt)
        .collect();
    assert_eq!(attempts, [1; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_machine_cannot_begin_for_long_is_given_back_and_does_not_fail() {
    let house = start_worker(TWO, |_| {
        Behaviour::Returns(failed_outcome(tools::HOST_EXHAUSTED))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    assert_eq!(reports.last().unwrap().end, ReportEnd::Released);
    assert_eq!(event_kinds(&reports), [["step.started", "task.started"]]);
}
