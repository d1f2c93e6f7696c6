//! Tests of the list of what waits for a signal.

use std::time::Duration;

use model::event::{
    AwaitTarget, EndStatus, EventBody, EventLocation, ExecutionRetried, FailurePayload, SignalReceived, StepScheduled,
    StopRequest, TaskStarted, TimerFired, WaitFor,
};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use model::time::Time;
use serde_json::json;

use crate::contract::build::{execution_finished, next_commit, start_execution};
use crate::contract::{StoreFixture, expect_ok};
use crate::{OldRows, Store, WaitEntry, WaitFilter};

type LocatedEvent = (EventLocation, EventBody);

fn step_run(step: &str) -> StepRunId {
    StepRunId {
        step: step.into(),
        run: 1,
    }
}

fn location(step: &str, iteration: Option<u64>) -> EventLocation {
    EventLocation {
        iteration,
        task: Some("ask".into()),
        ..EventLocation::of_step_run(&step_run(step))
    }
}

fn wait_started(step: &str, iteration: Option<u64>, signal: &str) -> LocatedEvent {
    let wait = WaitFor {
        until: Some(Time(7_000_000)),
        signal: Some(signal.into()),
        times_out: true,
    };
    let started = TaskStarted {
        awaits: Some(Box::new(AwaitTarget::Wait(wait))),
        approval: Some(RawJson::from_serializable(&json!({"title": "Ship?"}))),
        ..TaskStarted::default()
    };
    (location(step, iteration), EventBody::TaskStarted(started))
}

fn signal(name: &str) -> LocatedEvent {
    let received = SignalReceived {
        name: name.into(),
        payload: None,
        child: None,
    };
    (EventLocation::default(), EventBody::SignalReceived(received))
}

/// One execution and the end of its log.
struct WaitingExecution<'s> {
    store: &'s dyn Store,
    id: ExecutionId,
    seq: Seq,
}

impl<'s> WaitingExecution<'s> {
    async fn start(store: &'s dyn Store) -> Self {
        let id = start_execution(store, None).await;
        Self { store, id, seq: Seq(2) }
    }

    async fn append(&mut self, bodies: Vec<LocatedEvent>) {
        let commit = next_commit(self.store, self.id, self.seq, bodies);
        self.seq = commit.version();
        expect_ok(self.store.commit(commit).await);
    }

    /// The step and the iteration of each wait, oldest first.
    async fn waits(&self) -> Vec<(String, Option<u64>)> {
        let filter = WaitFilter {
            execution: Some(self.id),
            oldest_first: true,
            ..WaitFilter::default()
        };
        let entries = expect_ok(self.store.waits(&filter).await);
        let places = entries.into_iter();
        places
            .map(|entry| (entry.wait.run.step.to_string(), entry.wait.iteration))
            .collect()
    }
}

/// Starts an execution with one task that waits for a signal, and one stored signal.
pub async fn start_waiting(store: &dyn Store) -> ExecutionId {
    let mut run = WaitingExecution::start(store).await;
    run.append(vec![wait_started("plain", None, "go"), signal("early")])
        .await;
    run.id
}

fn waits_of(places: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    places
        .iter()
        .map(|(step, index)| ((*step).to_owned(), *index))
        .collect()
}

/// The oldest wait takes a signal; a signal that arrives first is taken by the next wait.
pub async fn a_wait_lasts_until_its_signal(site: &dyn StoreFixture) {
    let store = site.join();
    let mut run = WaitingExecution::start(&*store).await;
    assert_eq!(run.waits().await, waits_of(&[]));
    run.append(vec![
        wait_started("each", Some(0), "go"),
        wait_started("each", Some(1), "go"),
        wait_started("plain", None, "other"),
    ])
    .await;
    let all = [("each", Some(0)), ("each", Some(1)), ("plain", None)];
    assert_eq!(run.waits().await, waits_of(&all));
    let entries = expect_ok(store.waits(&WaitFilter::default()).await);
    let is_next: Vec<bool> = entries.iter().map(|entry| entry.is_next).collect();
    assert_eq!(is_next, [true, false, true], "newest first");
    let wait = &entries[0].wait;
    assert_eq!(
        (wait.signal.as_str(), wait.task.as_ref()),
        ("other", Some(&Name::from("ask")))
    );
    assert_eq!((wait.deadline, wait.seq), (Some(Time(7_000_000)), run.seq));
    assert!(
        wait.approval
            .as_ref()
            .is_some_and(|approval| approval.text().contains("Ship?"))
    );
    assert_eq!(entries[0].path, Name::from("examples/hello"));
    let awaited = expect_ok(store.awaited_signals(&[run.id]).await);
    assert_eq!(awaited, [(run.id, Name::from("go"))]);

    run.append(vec![signal("go"), signal("early")]).await;
    assert_eq!(run.waits().await, waits_of(&all[1..]));
    run.append(vec![wait_started("late", None, "early")]).await;
    assert_eq!(
        run.waits().await,
        waits_of(&all[1..]),
        "the stored signal ends it at once"
    );
    run.append(vec![wait_started("late", None, "early")]).await;
    assert_eq!(run.waits().await.len(), 3, "the signal is taken once");
}

/// A wait ends with its timer, its step run and its execution, and when a retry begins.
pub async fn a_wait_ends_with_what_contains_it(site: &dyn StoreFixture) {
    let store = site.join();
    let mut run = WaitingExecution::start(&*store).await;
    let all = [("each", Some(0)), ("each", Some(1)), ("plain", None)];
    let begin = || all.map(|(step, index)| wait_started(step, index, "go")).to_vec();
    run.append(begin()).await;
    let fired = EventBody::TimerFired(TimerFired { timer: Seq(3) });
    run.append(vec![(location("each", Some(1)), fired)]).await;
    assert_eq!(run.waits().await, waits_of(&[all[0], all[2]]));
    let error = TaskError::new(ErrorKind::Timeout, "STEP_TIMEOUT", "too slow");
    let failed = EventBody::StepFailed(Box::new(FailurePayload { error, set_ctx: None }));
    run.append(vec![(location("plain", None), failed)]).await;
    assert_eq!(run.waits().await, waits_of(&all[..1]));

    let last_step = StepScheduled {
        tokens: Vec::new(),
        args: None,
        args_from: None,
        is_final: true,
    };
    let last_step = EventBody::StepScheduled(Box::new(last_step));
    run.append(vec![(EventLocation::of_step_run(&step_run("tidy")), last_step)])
        .await;
    assert_eq!(run.waits().await, waits_of(&[]));
    run.append(begin()).await;
    run.append(vec![execution_finished(1, EndStatus::Cancelled)]).await;
    assert_eq!(run.waits().await, waits_of(&[]));
    let retried = EventBody::ExecutionRetried(ExecutionRetried { generation: 2 });
    run.append(vec![(EventLocation::default(), retried)]).await;
    assert_eq!(run.waits().await, waits_of(&[]), "the retry begins its waits again");
    run.append(begin()).await;
    assert_eq!(run.waits().await, waits_of(&all));
    assert_eq!(expect_ok(store.rebuild_projections().await).executions, 1);
    assert_eq!(run.waits().await, waits_of(&all));
}

/// Names of signals can have any characters; waits for very long names are not listed.
pub async fn signals_have_any_name(site: &dyn StoreFixture) {
    let store = site.join();
    let mut run = WaitingExecution::start(&*store).await;
    let (strange, long) = ("a\0\u{1F600}'\"", "x".repeat(1_100));
    run.append(vec![wait_started("a", None, strange), wait_started("b", None, &long)])
        .await;
    assert_eq!(run.waits().await, waits_of(&[("a", None)]));
    run.append(vec![signal(strange), signal(&long)]).await;
    assert_eq!(run.waits().await, waits_of(&[]));
}

/// Waits are listed by playbook and signal, page by page; those of a cancelling execution are not listed.
pub async fn waits_are_narrowed_and_paged(site: &dyn StoreFixture) {
    let store = site.join();
    let mut ids: Vec<ExecutionId> = Vec::new();
    for _ in 0..2 {
        let mut run = WaitingExecution::start(&*store).await;
        run.append(vec![wait_started("a", None, "go"), wait_started("b", None, "stop")])
            .await;
        ids.push(run.id);
    }
    let find = async |filter: WaitFilter| expect_ok(store.waits(&filter).await);
    let keys = |entries: &[WaitEntry]| -> Vec<(ExecutionId, Seq)> {
        let waits = entries.iter().map(|entry| (entry.wait.execution, entry.wait.seq));
        waits.collect()
    };
    let all = keys(&find(WaitFilter::default()).await);
    assert_eq!(
        all,
        [(ids[1], Seq(4)), (ids[1], Seq(3)), (ids[0], Seq(4)), (ids[0], Seq(3))]
    );
    for oldest_first in [false, true] {
        let mut filter = WaitFilter {
            oldest_first,
            limit: 3,
            ..WaitFilter::default()
        };
        let first = find(filter.clone()).await;
        filter.after = first.last().map(|entry| entry.wait.position());
        let mut paged = keys(&first);
        paged.extend(keys(&find(filter).await));
        if oldest_first {
            paged.reverse();
        }
        assert_eq!(paged, all);
    }
    let counted = async |filter: WaitFilter| expect_ok(store.wait_count(&filter).await);
    let with_signal = WaitFilter {
        signal: Some("stop".into()),
        ..WaitFilter::default()
    };
    assert_eq!(keys(&find(with_signal.clone()).await), [all[0], all[2]]);
    assert_eq!(counted(with_signal).await, 2);
    let limited = WaitFilter {
        limit: 3,
        ..WaitFilter::default()
    };
    assert_eq!(counted(limited).await, 3);
    for (path, count) in [("examples/hello", 4), ("examples/other", 0)] {
        let path = Some(path.into());
        let filter = WaitFilter {
            path,
            ..WaitFilter::default()
        };
        assert_eq!(counted(filter).await, count);
    }
    let cancel = EventBody::CancelRequested(StopRequest::default());
    let commit = next_commit(&*store, ids[1], Seq(4), vec![(EventLocation::default(), cancel)]);
    expect_ok(store.commit(commit).await);
    assert_eq!(keys(&find(WaitFilter::default()).await), all[2..]);
}

/// Signals that no task took are removed when their execution has ended long ago.
pub async fn signals_that_no_task_took_are_removed(site: &dyn StoreFixture) {
    let store = site.join();
    let mut run = WaitingExecution::start(&*store).await;
    run.append(vec![
        signal("early"),
        signal("early"),
        execution_finished(1, EndStatus::Error),
    ])
    .await;
    let removed = async |hours: u64, has_passed: bool| {
        let distance = Duration::from_secs(3_600 * hours);
        let now = store.now();
        let before = if has_passed {
            now.after(distance)
        } else {
            now.before(distance)
        };
        let old = OldRows {
            sessions_before: before,
            requests_before: before,
            messages_before: before,
            limit: 10,
        };
        expect_ok(store.remove_old_rows(old).await).removed
    };
    assert_eq!(removed(1, false).await, 0);
    assert_eq!(removed(1, true).await, 2);
    assert_eq!(removed(1, true).await, 0);
}
