//! Tests of the log: versions, keys, snapshots, lists and projections.

use std::time::Duration;

use model::event::{ControlNote, EndStatus, EventBody, ExecutionRetried, UniqueKey};
use model::id::{EventId, ExecutionId, Seq};
use model::result_ref::BodyScope;
use model::status::RunStatus;

use super::build::{PlainStep, creation_commit, execution_failed, execution_finished, next_commit, start_execution};
use super::{StoreFixture, expect_ok};
use crate::{CommitStatus, Error, ExecutionFilter, ExecutionSearch, ExternalEventKey, Snapshot};

/// Events are read back as written, by range and by sequence number.
pub async fn a_commit_is_read_back_as_it_was_written(site: &dyn StoreFixture) {
    let store = site.join();
    let first = creation_commit(&*store);
    let id = first.execution;
    assert_eq!(expect_ok(store.commit(first.clone()).await), CommitStatus::Committed);
    let second = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    assert_eq!(expect_ok(store.commit(second.clone()).await), CommitStatus::Committed);
    let all = [first.events, second.events].concat();
    assert_eq!(expect_ok(store.events(id, Seq(0), 100).await), all);
    // However events were batched, a page is full unless the log ends.
    for limit in 1..=all.len() {
        assert_eq!(expect_ok(store.events(id, Seq(0), limit).await), all[..limit]);
    }
    assert_eq!(expect_ok(store.events(id, Seq(1), 2).await), all[1..3]);
    let chosen = expect_ok(store.events_at(id, &[Seq(4), Seq(1), Seq(9)]).await);
    assert_eq!(chosen, [all[0].clone(), all[3].clone()]);
    let loaded = expect_ok(store.load(id, 1).await).expect("the execution exists");
    assert_eq!((loaded.row.version, loaded.tail), (Seq(4), all));
    assert_eq!(expect_ok(site.join().execution(id).await), Some(loaded.row));
}

/// A decision based on an old state is not written.
pub async fn a_commit_on_an_old_version_writes_nothing(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let step = PlainStep::new("a", 1);
    expect_ok(store.commit(step.schedule(&*store, id, Seq(2))).await);
    let late = PlainStep::new("b", 1).schedule(&*store, id, Seq(2));
    let conflict = CommitStatus::VersionConflict { version: Seq(4) };
    assert_eq!(expect_ok(store.commit(late).await), conflict);
    let turn = vec![execution_finished(1, EndStatus::Success)];
    let late = next_commit(&*store, id, Seq(3), turn);
    assert_eq!(expect_ok(store.commit(late).await), conflict);
    assert_eq!(expect_ok(store.events(id, Seq(0), 100).await).len(), 4);
    assert_eq!(expect_ok(store.open_commands(id).await).len(), 1);
    let stray = next_commit(
        &*store,
        model::id::ExecutionId(5),
        Seq(7),
        vec![execution_finished(1, EndStatus::Success)],
    );
    let conflict = CommitStatus::VersionConflict { version: Seq(0) };
    assert_eq!(expect_ok(store.commit(stray).await), conflict);
}

/// The same request, sent twice, starts one execution.
pub async fn creating_twice_creates_once(site: &dyn StoreFixture) {
    let store = site.join();
    let first = creation_commit(&*store);
    assert_eq!(expect_ok(store.commit(first.clone()).await), CommitStatus::Committed);
    let conflict = CommitStatus::VersionConflict { version: Seq(2) };
    assert_eq!(expect_ok(store.commit(first).await), conflict);
    assert_eq!(expect_ok(store.executions(&ExecutionFilter::default()).await).len(), 1);
}

/// A log has no gaps.
pub async fn seqs_with_a_gap_are_refused(site: &dyn StoreFixture) {
    let store = site.join();
    let mut first = creation_commit(&*store);
    first.events[1].seq = Seq(3);
    let refused = store.commit(first).await;
    assert!(matches!(refused, Err(Error::Malformed(_))), "{refused:?}");
}

/// Every event has an earlier cause.
pub async fn a_cause_after_its_effect_is_refused(site: &dyn StoreFixture) {
    let store = site.join();
    let mut first = creation_commit(&*store);
    first.events[1].cause_seq = Some(Seq(2));
    let refused = store.commit(first).await;
    assert!(matches!(refused, Err(Error::Malformed(_))), "{refused:?}");
}

/// An event ID of a client is found by lookup and unique by key.
pub async fn an_event_from_outside_is_found_by_its_id_and_kept_once(site: &dyn StoreFixture) {
    let store = site.join();
    let mut first = creation_commit(&*store);
    let id = first.execution;
    let foreign = ExternalEventKey {
        event_id: EventId(77),
        seq: Seq(2),
        hash: [7; 32],
    };
    first.external_events.push(foreign);
    expect_ok(store.commit(first).await);
    let events = expect_ok(store.external_events(id, &[EventId(78), EventId(77)]).await);
    assert_eq!(events, [foreign]);
    let mut repeat = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    repeat.external_events.push(foreign);
    let refused = store.commit(repeat).await;
    let is_named = matches!(&refused, Err(Error::Invariant(UniqueKey::Event(EventId(77)))));
    assert!(is_named, "{refused:?}");
    assert_eq!(expect_ok(store.events(id, Seq(0), 100).await).len(), 2);
}

/// A generation has one terminal event; another generation may have its own.
pub async fn an_end_is_recorded_once_per_generation(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let end = |expected, generation| {
        let mut commit = next_commit(
            &*store,
            id,
            expected,
            vec![execution_finished(generation, EndStatus::Error)],
        );
        commit.keys.push(UniqueKey::Terminal { generation });
        commit
    };
    assert_eq!(expect_ok(store.commit(end(Seq(2), 1)).await), CommitStatus::Committed);
    let refused = store.commit(end(Seq(3), 1)).await;
    let is_named = matches!(&refused, Err(Error::Invariant(UniqueKey::Terminal { generation: 1 })));
    assert!(is_named, "{refused:?}");
    assert_eq!(expect_ok(store.commit(end(Seq(3), 2)).await), CommitStatus::Committed);
}

/// Among commits that share a transaction, only the faulty one is refused.
pub async fn one_members_violation_does_not_touch_the_others(site: &dyn StoreFixture) {
    let store = site.join();
    let key = UniqueKey::Terminal { generation: 1 };
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut first = creation_commit(&*store);
        first.keys.push(key.clone());
        ids.push(first.execution);
        expect_ok(store.commit(first).await);
    }
    let commits = ids.iter().enumerate().map(|(n, id)| {
        let mut commit = PlainStep::new("a", 1).schedule(&*store, *id, Seq(2));
        commit.keys.extend((n == 1).then(|| key.clone()));
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move { store.commit(commit).await })
    });
    let commits: Vec<_> = commits.collect();
    let mut outcomes = Vec::new();
    for commit in commits {
        outcomes.push(commit.await.expect("a commit does not panic").is_ok());
    }
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(expect_ok(store.events(ids[1], Seq(0), 9).await).len(), 2);
    assert_eq!(expect_ok(store.events(ids[2], Seq(0), 9).await).len(), 4);
}

/// Status, generation and finish time are derived from the log.
pub async fn the_row_follows_the_log_through_a_life(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let note = || ControlNote { reason: None };
    let location = model::event::EventLocation::default;
    let turns = [
        (EventBody::PlaybookPaused(note()), RunStatus::Paused, 1),
        (EventBody::PlaybookResumed(note()), RunStatus::Running, 1),
        (execution_finished(1, EndStatus::Cancelled).1, RunStatus::Cancelled, 1),
        (
            EventBody::ExecutionRetried(ExecutionRetried { generation: 2 }),
            RunStatus::Running,
            2,
        ),
        (execution_finished(2, EndStatus::Success).1, RunStatus::Completed, 2),
    ];
    for (seq, (body, status, generation)) in (2..).zip(turns) {
        expect_ok(
            store
                .commit(next_commit(&*store, id, Seq(seq), vec![(location(), body)]))
                .await,
        );
        let row = expect_ok(store.execution(id).await).expect("the execution exists");
        assert_eq!((row.status, row.generation), (status, generation));
        assert_eq!(row.finished_at.is_some(), status.is_terminal());
    }
}

/// A snapshot is only used by readers of the same snapshot version.
pub async fn snapshots_shorten_the_tail_and_other_versions_are_passed_over(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let mut second = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    let snapshot = Snapshot {
        version: 3,
        seq: Seq(3),
        bytes: vec![1, 2, 3],
    };
    second.snapshot = Some(snapshot.clone());
    expect_ok(store.commit(second).await);
    let loaded = expect_ok(store.load(id, 3).await).expect("the execution exists");
    assert_eq!((loaded.snapshot, loaded.tail.len()), (Some(snapshot), 1));
    let loaded = expect_ok(store.load(id, 4).await).expect("the execution exists");
    assert_eq!((loaded.snapshot, loaded.tail.len()), (None, 4));
}

/// Lists support filters and pages.
pub async fn lists_are_narrowed_and_newest_first(site: &dyn StoreFixture) {
    let store = site.join();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let first = creation_commit(&*store);
        ids.push(first.execution);
        expect_ok(store.commit(first).await);
    }
    let end = next_commit(&*store, ids[1], Seq(2), vec![execution_finished(1, EndStatus::Success)]);
    expect_ok(store.commit(end).await);
    let list = async |filter: ExecutionFilter| -> Vec<_> {
        let listed_rows = expect_ok(store.executions(&filter).await);
        listed_rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(list(ExecutionFilter::default()).await, [ids[2], ids[1], ids[0]]);
    let running = ExecutionFilter {
        statuses: vec![RunStatus::Running],
        ..ExecutionFilter::default()
    };
    assert_eq!(list(running).await, [ids[2], ids[0]]);
    let page = ExecutionFilter {
        before: Some(ids[2]),
        limit: 1,
        ..ExecutionFilter::default()
    };
    assert_eq!(list(page).await, [ids[1]]);
    let other = ExecutionFilter {
        paths: vec!["examples/other".into()],
        ..ExecutionFilter::default()
    };
    assert!(list(other).await.is_empty());
    let completed_or_failed = ExecutionFilter {
        statuses: vec![RunStatus::Completed, RunStatus::Failed],
        paths: vec!["examples/hello".into(), "examples/other".into()],
        ..ExecutionFilter::default()
    };
    assert_eq!(list(completed_or_failed).await, [ids[1]]);
    let started_at = async |id| expect_ok(store.execution(id).await).expect("the run exists").started_at;
    let of_this_time = ExecutionFilter {
        since: Some(started_at(ids[0]).await),
        until: Some(started_at(ids[2]).await.after(Duration::from_micros(1))),
        ..ExecutionFilter::default()
    };
    assert_eq!(list(of_this_time).await, [ids[2], ids[1], ids[0]]);
}

/// A search finds runs by their ID, texts, error code and duration; patterns in a text have no meaning.
pub async fn executions_are_searched_by_text_error_and_duration(site: &dyn StoreFixture) {
    let store = site.join();
    let running = creation_commit(&*store);
    let failed = creation_commit(&*store);
    let (running_id, failed_id) = (running.execution, failed.execution);
    expect_ok(store.commit(running).await);
    expect_ok(store.commit(failed).await);
    let end = next_commit(
        &*store,
        failed_id,
        Seq(2),
        vec![execution_failed("HTTP_STATUS", "100% of requests failed")],
    );
    expect_ok(store.commit(end).await);
    let find = async |search: ExecutionSearch| -> Vec<ExecutionId> {
        let filter = ExecutionFilter {
            search,
            ..ExecutionFilter::default()
        };
        let rows = expect_ok(store.executions(&filter).await);
        let facets = expect_ok(store.execution_facets(&filter).await);
        let of_rows: Vec<_> = rows
            .iter()
            .map(|row| (row.status, row.started_at, &row.error))
            .collect();
        let of_facets: Vec<_> = facets
            .iter()
            .map(|row| (row.status, row.started_at, &row.error))
            .collect();
        assert_eq!(of_rows, of_facets);
        assert!(rows.iter().all(|row| filter.matches(row, store.now())));
        rows.into_iter().map(|row| row.id).collect()
    };
    let find_text = async |text: &str| {
        let text = Some(text.to_owned());
        find(ExecutionSearch {
            text,
            ..ExecutionSearch::default()
        })
        .await
    };
    assert_eq!(find_text("HELLO").await, [failed_id, running_id]);
    assert_eq!(find_text("100% of").await, [failed_id]);
    assert_eq!(find_text(&running_id.to_string()).await, [running_id]);
    for pattern in ["1%f", "he__o", "\\", "'", "no such text"] {
        assert!(find_text(pattern).await.is_empty(), "{pattern}");
    }
    let find_code = async |code: &str| {
        let error_code = Some(code.to_owned());
        find(ExecutionSearch {
            error_code,
            ..ExecutionSearch::default()
        })
        .await
    };
    assert_eq!(find_code("HTTP_STATUS").await, [failed_id]);
    assert!(find_code("HTTP").await.is_empty());
    let hour = Some(Duration::from_secs(3_600));
    let quick = ExecutionSearch {
        max_duration: hour,
        ..ExecutionSearch::default()
    };
    let slow = ExecutionSearch {
        min_duration: hour,
        ..ExecutionSearch::default()
    };
    assert_eq!(find(quick).await, [failed_id, running_id]);
    assert!(find(slow).await.is_empty());
}

/// Rebuilt projections equal the original ones.
pub async fn projections_rebuilt_are_the_same(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let step = PlainStep::new("a", 1);
    expect_ok(store.commit(step.schedule(&*store, id, Seq(2))).await);
    expect_ok(store.commit(step.collect(&*store, id, Seq(4))).await);
    expect_ok(store.commit(step.finish(&*store, id, Seq(6))).await);
    let projections = async || {
        let row = expect_ok(store.execution(id).await);
        (
            row,
            expect_ok(store.steps(id).await),
            expect_ok(store.results(id).await),
        )
    };
    let before = projections().await;
    assert_eq!((before.1.len(), before.2.len()), (1, 3));
    assert!(before.1[0].last_result_ref.is_some());
    let pages: Vec<Option<i64>> = before.2.iter().map(|row| row.page).collect();
    assert_eq!(pages, [Some(3), None, None]);
    let manifest = before.1[0].aggregate_result_ref.as_ref();
    assert_eq!(manifest, Some(&before.2[1].result_ref));
    let rebuilt = expect_ok(store.rebuild_projections().await);
    assert_eq!((rebuilt.executions, rebuilt.events), (1, 8));
    assert_eq!(projections().await, before);
}

/// An execution is lasting if one of its bodies is permanent.
pub async fn only_runs_that_keep_a_body_for_good_last(site: &dyn StoreFixture) {
    let store = site.join();
    let mut lasting = Vec::new();
    for scope in [BodyScope::Execution, BodyScope::Permanent] {
        let id = start_execution(&*store, None).await;
        let step = PlainStep::new("a", 1);
        expect_ok(store.commit(step.schedule(&*store, id, Seq(2))).await);
        let mut done = step.finish(&*store, id, Seq(4));
        if let EventBody::TaskDone(ended) = &mut done.events[0].body
            && let Some(reference) = &mut ended.result_ref
        {
            reference.scope = scope;
        }
        expect_ok(store.commit(done).await);
        lasting.extend((scope == BodyScope::Permanent).then_some(id));
    }
    assert_eq!(expect_ok(store.executions_with_permanent_bodies().await), lasting);
}
