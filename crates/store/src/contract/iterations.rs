//! Tests of loop iterations: lookup, count and skip without scanning the log.

use std::collections::BTreeSet;
use std::ops::Range;

use model::event::{
    EmptyPayload, EndStatus, EventBody, EventLocation, ExecutionRetried, FailurePayload, IterationDone, LoopDone,
    LoopStarted, LoopStats, TaskEnded,
};
use model::id::{ExecutionId, Seq, StepRunId};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Directive, FailureMode, LoopMode};
use model::raw::RawJson;
use serde_json::{Value, json};

use crate::contract::build::{execution_finished, next_commit};
use crate::contract::{PlainStep, StoreFixture, creation_commit, expect_ok};
use crate::iterations::block_indices;
use crate::{Commit, IterationRowQuery, LoopProgress, LoopTask, OutcomeRange, Store};

fn loop_run() -> StepRunId {
    StepRunId {
        step: "each".into(),
        run: 1,
    }
}

fn iteration_location(iteration: u64) -> EventLocation {
    EventLocation {
        iteration: Some(iteration),
        ..EventLocation::of_step_run(&loop_run())
    }
}

fn iteration_done(iteration: u64) -> (EventLocation, EventBody) {
    let ended = IterationDone { set_ctx: None };
    (iteration_location(iteration), EventBody::IterationDone(ended))
}

fn iteration_failed(iteration: u64) -> (EventLocation, EventBody) {
    let error = TaskError::new(ErrorKind::Unknown, "BROKEN", "it broke");
    let failed = FailurePayload { error, set_ctx: None };
    (
        iteration_location(iteration),
        EventBody::IterationFailed(Box::new(failed)),
    )
}

/// Appends the ends of iterations, each after its start. Returns the last sequence number.
async fn append_ends(store: &dyn Store, id: ExecutionId, expected: Seq, ends: Vec<(EventLocation, EventBody)>) -> Seq {
    let bodies = ends.into_iter().flat_map(|(location, body)| {
        let started = (location.clone(), EventBody::IterationStarted(EmptyPayload {}));
        [started, (location, body)]
    });
    let commit = next_commit(store, id, expected, bodies.collect());
    write_commit(store, commit).await
}

async fn write_commit(store: &dyn Store, commit: Commit) -> Seq {
    let version = commit.version();
    expect_ok(store.commit(commit).await);
    version
}

/// Creates an execution whose loop has ended 200 iterations in appends of 50, out of order, with two failures.
async fn create_loop(store: &dyn Store) -> (ExecutionId, Seq) {
    let first = creation_commit(store);
    let id = first.execution;
    let mut seq = write_commit(store, first).await;
    for from in [100, 0, 150, 50] {
        let ends = (from..from + 50).map(|index| match index {
            70 | 110 => iteration_failed(index),
            _ => iteration_done(index),
        });
        seq = append_ends(store, id, seq, ends.collect()).await;
    }
    (id, seq)
}

/// An execution that has ended, with one loop.
pub struct FinishedLoop {
    /// The execution.
    pub execution: ExecutionId,
    /// The loop's step run.
    pub run: StepRunId,
    /// The `loop.started` event.
    pub started: Seq,
    /// The `loop.done` event.
    pub done: Seq,
}

/// Number of iterations in each append that [`finish_loop`] writes.
pub const LOOP_APPEND_ITERATIONS: u64 = 50;

/// Writes a loop with the given number of iterations. The result of each is its index.
pub async fn finish_loop(store: &dyn Store, iterations: u64) -> FinishedLoop {
    let first = creation_commit(store);
    let execution = first.execution;
    let seq = write_commit(store, first).await;
    let step = PlainStep::new("each", 1);
    let mut scheduled = step.schedule(store, execution, seq);
    scheduled.commands.clear();
    let seq = write_commit(store, scheduled).await;
    let started_at = loop_started(iterations);
    let started = write_commit(store, next_commit(store, execution, seq, vec![started_at])).await;
    let mut seq = started;
    let mut from = 0;
    while from < iterations {
        let indices = from..(from + LOOP_APPEND_ITERATIONS).min(iterations);
        from = indices.end;
        let events = indices.flat_map(|index| {
            let beginning = (iteration_location(index), EventBody::IterationStarted(EmptyPayload {}));
            [beginning, task_done(index), iteration_done(index)]
        });
        seq = write_commit(store, next_commit(store, execution, seq, events.collect())).await;
    }
    let stats = LoopStats {
        total: iterations,
        succeeded: iterations,
        failed: 0,
    };
    let ended = LoopDone {
        stats,
        results: None,
        manifests: Vec::new(),
    };
    let ended = (EventLocation::of_step_run(&loop_run()), EventBody::LoopDone(ended));
    let ends = vec![ended, execution_finished(1, EndStatus::Success)];
    let last = write_commit(store, next_commit(store, execution, seq, ends)).await;
    let done = Seq(last.0 - 1);
    FinishedLoop {
        execution,
        run: loop_run(),
        started,
        done,
    }
}

fn loop_started(total: u64) -> (EventLocation, EventBody) {
    let started = LoopStarted {
        total,
        mode: LoopMode::Parallel,
        max_in_flight: 16,
        failure: FailureMode::FailFast,
        local: false,
        collection: None,
        collection_ref: None,
        range: None,
        sha256: "00".to_owned(),
        reused: None,
        more: false,
    };
    let location = EventLocation::of_step_run(&loop_run());
    (location, EventBody::LoopStarted(Box::new(started)))
}

fn task_done(iteration: u64) -> (EventLocation, EventBody) {
    let outcome = json!({"status": "ok", "result": iteration});
    let (location, ended) = task_end("part", iteration, &outcome);
    (location, EventBody::TaskDone(ended))
}

fn task_failed(task: &str, iteration: u64) -> (EventLocation, EventBody) {
    let error = TaskError::new(ErrorKind::Unknown, "BROKEN", "it broke");
    let outcome = json!({"status": "error", "error": error});
    let (location, ended) = task_end(task, iteration, &outcome);
    (location, EventBody::TaskFailed(ended))
}

fn task_end(task: &str, iteration: u64, outcome: &Value) -> (EventLocation, Box<TaskEnded>) {
    let ended = TaskEnded::new(RawJson::from_serializable(outcome), Directive::Continue);
    let location = EventLocation {
        task: Some(task.into()),
        visit: 1,
        attempt: 1,
        ..iteration_location(iteration)
    };
    (location, Box::new(ended))
}

/// Iterations are found by index, in whatever order they ended.
pub async fn iterations_are_found_by_their_index(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, _) = create_loop(&*store).await;
    for range in [0..1, 63..65, 149..152, 40..160, 199..300, 7..7] {
        let outcomes = expect_ok(store.iteration_events(id, &loop_run(), range.clone()).await);
        let mut indices: Vec<u64> = outcomes.iter().filter_map(|event| event.location.iteration).collect();
        indices.sort_unstable();
        let expected: Vec<u64> = range.clone().filter(|index| *index < 200).collect();
        assert_eq!(indices, expected, "{range:?}");
        assert!(outcomes.is_sorted_by_key(|event| event.seq), "{range:?}");
    }
    assert_eq!(expect_ok(store.iteration_count(id, &loop_run()).await), 200);
    let other = StepRunId { run: 2, ..loop_run() };
    assert!(expect_ok(store.iteration_events(id, &other, 0..200).await).is_empty());
    assert_eq!(expect_ok(store.iteration_count(id, &other).await), 0);
}

/// Failures before a retry do not count once the loop continues.
pub async fn iterations_are_counted_and_a_retry_counts_failures_anew(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, seq) = create_loop(&*store).await;
    let progress = |succeeded: u64, failed: u64| {
        let (run, retries) = (loop_run(), 0);
        vec![LoopProgress {
            run,
            succeeded,
            failed,
            retries,
        }]
    };
    assert_eq!(expect_ok(store.loops(id).await), progress(198, 2));
    assert_eq!(expect_ok(store.failed_iterations(id, &loop_run(), 9).await), [70, 110]);
    assert_eq!(expect_ok(store.failed_iterations(id, &loop_run(), 1).await), [70]);
    let retried = EventBody::ExecutionRetried(ExecutionRetried { generation: 2 });
    let seq = write_commit(
        &*store,
        next_commit(&*store, id, seq, vec![(EventLocation::default(), retried)]),
    )
    .await;
    let seq = append_ends(&*store, id, seq, vec![iteration_done(70)]).await;
    assert_eq!(expect_ok(store.loops(id).await), progress(199, 0));
    assert!(expect_ok(store.failed_iterations(id, &loop_run(), 9).await).is_empty());
    append_ends(&*store, id, seq, vec![iteration_failed(110)]).await;
    assert_eq!(expect_ok(store.loops(id).await), progress(199, 1));
    assert_eq!(expect_ok(store.failed_iterations(id, &loop_run(), 9).await), [110]);
}

/// Pages of the index list each recorded iteration; a retry leaves only later failures.
pub async fn many_iterations_are_read_in_pages(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, seq) = create_loop(&*store).await;
    let (run, indices) = (loop_run(), 64..200);
    let read = async |is_failed_only: bool, limit: usize| {
        let mut query = IterationRowQuery::of_iterations(&indices, is_failed_only, limit);
        let (mut recorded, mut failed) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let rows = expect_ok(store.iteration_rows(id, &run, &query).await);
            assert!(rows.len() <= limit && rows.is_sorted_by_key(|row| (row.block, row.seq)));
            let Some(last) = rows.last() else {
                return (recorded, failed);
            };
            query.after = (last.block, last.seq);
            for row in rows {
                recorded.extend(block_indices(row.block, row.recorded));
                failed.extend(block_indices(row.block, row.failed));
            }
        }
    };
    for limit in [1, 2, 1_000] {
        assert_eq!(
            read(false, limit).await,
            ((64..200).collect(), BTreeSet::from([70, 110]))
        );
        assert_eq!(read(true, limit).await.1, BTreeSet::from([70, 110]));
    }
    let retried = EventBody::ExecutionRetried(ExecutionRetried { generation: 2 });
    let retried = next_commit(&*store, id, seq, vec![(EventLocation::default(), retried)]);
    let seq = write_commit(&*store, retried).await;
    append_ends(&*store, id, seq, vec![iteration_done(70), iteration_failed(110)]).await;
    assert_eq!(read(false, 9).await.1, BTreeSet::from([110]));
    assert_eq!(read(true, 9).await.1, BTreeSet::from([110]));
}

/// An iteration that runs again after a retry has the time and the result of its last run.
pub async fn an_iteration_has_the_time_of_its_last_run(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, seq) = create_loop(&*store).await;
    let read = async || expect_ok(store.iteration_timings(id, &loop_run(), 69..71, 100).await);
    let before = read().await;
    assert!(before.is_complete && before.appends > 0);
    assert_eq!(before.timings.keys().copied().collect::<Vec<_>>(), [69, 70]);
    assert!(before.timings[&70].is_failed && !before.timings[&69].is_failed);
    assert_eq!(before.timings[&70].attempts, 1);
    append_ends(&*store, id, seq, vec![iteration_done(70)]).await;
    let after = read().await;
    assert_eq!(after.timings[&69], before.timings[&69]);
    let (first, last) = (before.timings[&70], after.timings[&70]);
    assert!(
        !last.is_failed && last.started_at >= first.ended_at,
        "{first:?} {last:?}"
    );
    assert!(last.duration_us().is_some(), "{last:?}");
}

/// An outline has every event that belongs to no iteration, and its pages together are complete.
pub async fn an_outline_has_everything_but_iterations(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, seq) = create_loop(&*store).await;
    let step = PlainStep::new("after", 1);
    let seq = write_commit(&*store, step.schedule(&*store, id, seq)).await;
    let mut mixed = step.finish(&*store, id, seq).events;
    let bodies = mixed.drain(..).map(|event| (event.location, event.body));
    let seq = write_commit(
        &*store,
        next_commit(&*store, id, seq, bodies.chain([iteration_done(300)]).collect()),
    )
    .await;
    let seq = append_ends(&*store, id, seq, vec![iteration_done(301)]).await;
    let events = expect_ok(store.events(id, Seq(0), usize::MAX).await);
    assert_eq!(events.last().map(|event| event.seq), Some(seq));
    let expected: Vec<Seq> = events
        .iter()
        .filter(|event| event.location.iteration.is_none())
        .map(|event| event.seq)
        .collect();
    for limit in [1, 3, 1_000] {
        let mut outline = Vec::new();
        let mut after = Seq(0);
        loop {
            let page = expect_ok(store.outline(id, after, limit).await);
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = last.seq;
            outline.extend(page);
        }
        assert!(outline.is_sorted_by_key(|event| event.seq));
        let plain = outline.iter().filter(|event| event.location.iteration.is_none());
        let seqs: Vec<Seq> = plain.map(|event| event.seq).collect();
        assert_eq!(seqs, expected, "{limit}");
    }
}

/// Reads the outcomes of these iterations that are recorded up to a seq. Returns their seqs and the index of the next
/// iteration to read.
async fn outcomes(
    store: &dyn Store,
    finished: &FinishedLoop,
    iterations: Range<u64>,
    until: Seq,
    bytes_max: usize,
) -> (Vec<(u64, Seq)>, u64) {
    let range = OutcomeRange {
        iterations,
        after: finished.started,
        until,
        bytes_max,
    };
    let read = store.iteration_outcomes(finished.execution, &finished.run, &range);
    let read = expect_ok(read.await);
    let seqs = read.outcomes.iter();
    let seqs = seqs.map(|(index, event)| {
        assert_eq!(event.location.iteration, Some(*index));
        (*index, event.seq)
    });
    (seqs.collect(), read.end)
}

/// The store reads the last outcome of each iteration up to a seq, for as many iterations as fit.
pub async fn outcomes_of_iterations_are_read_in_bounded_memory(site: &dyn StoreFixture) {
    let store = site.join();
    let finished = finish_loop(&*store, 200).await;
    let (id, done) = (finished.execution, finished.done);
    let last = write_commit(
        &*store,
        next_commit(&*store, id, done.next(), vec![task_failed("part", 5)]),
    )
    .await;
    let end_of = |index: u64| Seq(finished.started.0 + 3 * index + 2);
    let expected = |range: Range<u64>| -> Vec<(u64, Seq)> { range.map(|index| (index, end_of(index))).collect() };
    for range in [0..200, 63..65, 7..8, 199..200] {
        let actual = outcomes(&*store, &finished, range.clone(), done, usize::MAX).await;
        assert_eq!(actual, (expected(range.clone()), range.end));
    }
    let actual = outcomes(&*store, &finished, 5..5, done, usize::MAX).await;
    assert_eq!(actual, (Vec::new(), 5));
    let actual = outcomes(&*store, &finished, 190..300, done, usize::MAX).await;
    assert_eq!(actual, (expected(190..200), 300));
    let few = outcomes(&*store, &finished, 30..200, done, 1).await;
    assert_eq!(few, (expected(30..94), 94));
    let half = outcomes(&*store, &finished, 0..200, done, 150 * 600).await;
    assert_eq!(half, (expected(0..100), 100));
    let early = outcomes(&*store, &finished, 50..100, end_of(60), usize::MAX).await;
    assert_eq!(early, (expected(50..61), 100));
    let repeated = outcomes(&*store, &finished, 5..6, last, usize::MAX).await;
    assert_eq!(repeated, (vec![(5, last)], 6));
}

/// The store finds the last result and the last failure of a loop task, in the latest run or in a given run.
pub async fn the_latest_ends_of_a_loop_task_are_found(site: &dyn StoreFixture) {
    let store = site.join();
    let finished = finish_loop(&*store, 100).await;
    let id = finished.execution;
    let seq = finished.done.next();
    let mut later = vec![task_failed("part", 7), task_failed("part", 8), task_failed("check", 8)];
    let seq = write_commit(&*store, next_commit(&*store, id, seq, later.clone())).await;
    let first_run = LoopTask {
        run: 1,
        succeeded: Some(Seq(finished.started.0 + 3 * 99 + 2)),
        failed: Some(Seq(seq.0 - 1)),
    };
    let find = async |run: Option<u32>, task: &str| {
        let (step, task) = ("each".into(), task.into());
        expect_ok(store.loop_task(id, &step, run, &task).await)
    };
    assert_eq!(find(None, "part").await.as_ref(), Some(&first_run));
    for (location, _) in &mut later {
        location.run = 2;
    }
    let seq = write_commit(&*store, next_commit(&*store, id, seq, later)).await;
    let failed = |run: u32, seq: u64| LoopTask {
        run,
        succeeded: None,
        failed: Some(Seq(seq)),
    };
    for _ in 0..2 {
        assert_eq!(find(None, "part").await, Some(failed(2, seq.0 - 1)));
        assert_eq!(find(Some(1), "part").await.as_ref(), Some(&first_run));
        assert_eq!(find(None, "check").await, Some(failed(2, seq.0)));
        assert_eq!(find(Some(1), "check").await, Some(failed(1, seq.0 - 3)));
        assert_eq!(find(Some(3), "part").await, None);
        assert_eq!(find(None, "absent").await, None);
        expect_ok(store.rebuild_projections().await);
    }
}

/// Rebuilt rows equal the original rows.
pub async fn rows_of_iterations_rebuilt_are_the_same(site: &dyn StoreFixture) {
    let store = site.join();
    let (id, _) = create_loop(&*store).await;
    let rows = async || {
        (
            expect_ok(store.loops(id).await),
            expect_ok(store.failed_iterations(id, &loop_run(), 9).await),
            expect_ok(store.iteration_events(id, &loop_run(), 0..200).await),
            expect_ok(store.outline(id, Seq(0), 1_000).await),
        )
    };
    let before = rows().await;
    expect_ok(store.rebuild_projections().await);
    assert_eq!(rows().await, before);
}
