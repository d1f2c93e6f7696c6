//! Tests of rows that only detect repetitions: they exist while a repetition may arrive, and are removed afterwards.

use std::slice::from_ref;
use std::time::Duration;

use model::id::{ExecutionId, Seq, WorkerId};
use model::time::Time;

use super::build::{PlainStep, start_execution};
use super::shared::message;
use super::{StoreFixture, expect_ok};
use crate::{BATCH_END_PREFIX, BATCH_PREFIX, OldRows, Priority, RemovedRows, SessionHolder, Store};

/// A time long before every row of a test.
fn long_ago(store: &dyn Store) -> Time {
    store.now().before(Duration::from_secs(3_600))
}

fn far_future(store: &dyn Store) -> Time {
    store.now().after(Duration::from_secs(3_600))
}

fn old_rows_before(time: Time) -> OldRows {
    OldRows {
        sessions_before: time,
        requests_before: time,
        messages_before: time,
        limit: 10,
    }
}

fn removed_rows(rows: u64) -> RemovedRows {
    RemovedRows {
        removed: rows,
        postponed: 0,
    }
}

/// Sessions and `dedup` keys are removed, except those still in use.
pub async fn old_rows_are_removed(site: &dyn StoreFixture) {
    let store = site.join();
    let worker = |name: &str| WorkerId(name.into());
    let holder = SessionHolder("one".into());
    for (name, ttl) in [("gone", 0), ("here", 7_200)] {
        let ttl = Duration::from_secs(ttl);
        assert!(expect_ok(store.renew_session(&worker(name), &holder, ttl).await));
    }
    let existing = start_execution(&*store, None).await;
    let never = ExecutionId(store.ids(1).0);
    for (key, id) in [("dedup:lives", existing), ("dedup:never", never)] {
        expect_ok(store.set_setting_once(key, &id.to_string()).await);
    }
    let (long_ago, later) = (long_ago(&*store), far_future(&*store));
    assert_eq!(
        expect_ok(store.remove_old_rows(old_rows_before(long_ago)).await),
        removed_rows(0)
    );

    let rows = expect_ok(store.remove_old_rows(old_rows_before(later)).await);

    assert_eq!((rows.removed, rows.postponed), (2, 1));
    assert_eq!(expect_ok(store.setting("dedup:never").await), None);
    assert!(expect_ok(store.setting("dedup:lives").await).is_some());
    assert!(expect_ok(store.setting("cluster_secret").await).is_some());
    let rows = expect_ok(store.remove_old_rows(old_rows_before(later)).await);
    assert_eq!((rows.removed, rows.postponed), (0, 1));
}

/// The key of a consumed message detects a repetition until its retention has passed.
pub async fn keys_of_consumed_messages_are_removed(site: &dyn StoreFixture) {
    let store = site.join();
    let (sender, receiver) = (
        start_execution(&*store, None).await,
        start_execution(&*store, None).await,
    );
    let between = message(sender, 0, receiver);
    let mut from_outside = message(ExecutionId(store.ids(1).0), 0, receiver);
    from_outside.key.seq = Seq(0);
    let pending = message(sender, 1, receiver);
    for message in [&between, &from_outside, &pending] {
        expect_ok(store.send_message(message.clone(), Priority::Normal).await);
    }
    let mut commit = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    commit.consumed = vec![between.key, from_outside.key];
    expect_ok(store.commit(commit).await);
    let (long_ago, later) = (long_ago(&*store), far_future(&*store));
    assert_eq!(
        expect_ok(store.remove_old_rows(old_rows_before(long_ago)).await),
        removed_rows(0)
    );
    for message in [&between, &from_outside] {
        expect_ok(store.send_message(message.clone(), Priority::Normal).await);
    }
    assert_eq!(expect_ok(store.inbox(None, 9).await), from_ref(&pending));

    let of_executions = OldRows {
        messages_before: later,
        ..old_rows_before(long_ago)
    };
    assert_eq!(expect_ok(store.remove_old_rows(of_executions).await), removed_rows(1));
    expect_ok(store.send_message(from_outside.clone(), Priority::Normal).await);
    assert_eq!(expect_ok(store.inbox(None, 9).await), from_ref(&pending));
    assert_eq!(
        expect_ok(store.remove_old_rows(old_rows_before(later)).await),
        removed_rows(1)
    );
    // No row is left that detects the repetition.
    expect_ok(store.send_message(between.clone(), Priority::Normal).await);
    expect_ok(store.send_message(from_outside.clone(), Priority::Normal).await);
    assert_eq!(expect_ok(store.inbox(None, 9).await), [pending, between, from_outside]);
}

/// The state of an asynchronous batch is removed with its end; a batch that has not ended stays.
pub async fn states_of_ended_batches_are_removed(site: &dyn StoreFixture) {
    let store = site.join();
    let set = async |prefix: &str, name: &str| {
        let key = format!("{prefix}{name}");
        expect_ok(store.set_setting_once(&key, "{}").await);
    };
    set(BATCH_PREFIX, "ended").await;
    set(BATCH_END_PREFIX, "ended").await;
    set(BATCH_PREFIX, "open").await;
    let (long_ago, later) = (long_ago(&*store), far_future(&*store));
    assert_eq!(
        expect_ok(store.remove_old_rows(old_rows_before(long_ago)).await),
        removed_rows(0)
    );

    assert_eq!(
        expect_ok(store.remove_old_rows(old_rows_before(later)).await),
        removed_rows(1)
    );

    assert_eq!(expect_ok(store.setting("batch:ended").await), None);
    assert_eq!(expect_ok(store.setting("batch-end:ended").await), None);
    assert!(expect_ok(store.setting("batch:open").await).is_some());
}

/// One call removes at most `limit` rows of each kind; further calls remove the remaining ones.
pub async fn old_rows_are_removed_in_slices(site: &dyn StoreFixture) {
    let store = site.join();
    for n in 0..5 {
        let key = format!("{BATCH_END_PREFIX}{n}");
        expect_ok(store.set_setting_once(&key, "{}").await);
    }
    let slice = OldRows {
        limit: 2,
        ..old_rows_before(far_future(&*store))
    };
    for rows in [2, 2, 1, 0] {
        assert_eq!(expect_ok(store.remove_old_rows(slice).await), removed_rows(rows));
    }
}
