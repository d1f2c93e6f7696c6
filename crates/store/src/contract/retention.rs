//! Tests of rows that only detect repetitions: they exist while a repetition may arrive, and are removed afterwards.

use std::slice::from_ref;
use std::time::Duration;

use model::id::{ExecutionId, Seq, WorkerId};
use model::time::Time;

use super::build::PlainStep;
use super::shared::{message, started};
use super::{Site, ok};
use crate::{BATCH, BATCH_END, OldRows, Priority, RemovedRows, SessionHolder, Store};

/// A time long before every row of a test.
fn long_ago(store: &dyn Store) -> Time {
    store.now().before(Duration::from_secs(3_600))
}

fn later(store: &dyn Store) -> Time {
    store.now().after(Duration::from_secs(3_600))
}

fn all_before(time: Time) -> OldRows {
    OldRows {
        sessions_before: time,
        requests_before: time,
        messages_before: time,
        limit: 10,
    }
}

fn removed(rows: u64) -> RemovedRows {
    RemovedRows {
        removed: rows,
        postponed: 0,
    }
}

/// Sessions and `dedup` keys are removed, except those still in use.
pub async fn old_rows_are_removed(site: &dyn Site) {
    let store = site.join();
    let worker = |name: &str| WorkerId(name.into());
    let holder = SessionHolder("one".into());
    for (name, ttl) in [("gone", 0), ("here", 7_200)] {
        let ttl = Duration::from_secs(ttl);
        assert!(ok(store.renew(&worker(name), &holder, ttl).await));
    }
    let lives = started(&*store, None).await;
    let never = ExecutionId(store.ids(1).0);
    for (word, id) in [("dedup:lives", lives), ("dedup:never", never)] {
        ok(store.set_setting_once(word, &id.to_string()).await);
    }
    let (long_ago, later) = (long_ago(&*store), later(&*store));
    assert_eq!(ok(store.remove_old(all_before(long_ago)).await), removed(0));

    let rows = ok(store.remove_old(all_before(later)).await);

    assert_eq!((rows.removed, rows.postponed), (2, 1));
    assert_eq!(ok(store.setting("dedup:never").await), None);
    assert!(ok(store.setting("dedup:lives").await).is_some());
    assert!(ok(store.setting("cluster_secret").await).is_some());
    let rows = ok(store.remove_old(all_before(later)).await);
    assert_eq!((rows.removed, rows.postponed), (0, 1));
}

/// The key of a consumed message detects a repetition until its retention has passed.
pub async fn keys_of_consumed_messages_are_removed(site: &dyn Site) {
    let store = site.join();
    let (sender, receiver) = (started(&*store, None).await, started(&*store, None).await);
    let between = message(sender, 0, receiver);
    let mut from_outside = message(ExecutionId(store.ids(1).0), 0, receiver);
    from_outside.key.seq = Seq(0);
    let pending = message(sender, 1, receiver);
    for message in [&between, &from_outside, &pending] {
        ok(store.send(message.clone(), Priority::Normal).await);
    }
    let mut commit = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    commit.consumed = vec![between.key, from_outside.key];
    ok(store.commit(commit).await);
    let (long_ago, later) = (long_ago(&*store), later(&*store));
    assert_eq!(ok(store.remove_old(all_before(long_ago)).await), removed(0));
    for message in [&between, &from_outside] {
        ok(store.send(message.clone(), Priority::Normal).await);
    }
    assert_eq!(ok(store.inbox(None, 9).await), from_ref(&pending));

    let of_executions = OldRows {
        messages_before: later,
        ..all_before(long_ago)
    };
    assert_eq!(ok(store.remove_old(of_executions).await), removed(1));
    ok(store.send(from_outside.clone(), Priority::Normal).await);
    assert_eq!(ok(store.inbox(None, 9).await), from_ref(&pending));
    assert_eq!(ok(store.remove_old(all_before(later)).await), removed(1));
    // No row is left that detects the repetition.
    ok(store.send(between.clone(), Priority::Normal).await);
    ok(store.send(from_outside.clone(), Priority::Normal).await);
    assert_eq!(
        ok(store.inbox(None, 9).await),
        [pending, between, from_outside]
    );
}

/// The state of an asynchronous batch is removed with its end; a batch that has not ended stays.
pub async fn states_of_ended_batches_are_removed(site: &dyn Site) {
    let store = site.join();
    let set = async |prefix: &str, name: &str| {
        let key = format!("{prefix}{name}");
        ok(store.set_setting_once(&key, "{}").await);
    };
    set(BATCH, "ended").await;
    set(BATCH_END, "ended").await;
    set(BATCH, "open").await;
    let (long_ago, later) = (long_ago(&*store), later(&*store));
    assert_eq!(ok(store.remove_old(all_before(long_ago)).await), removed(0));

    assert_eq!(ok(store.remove_old(all_before(later)).await), removed(1));

    assert_eq!(ok(store.setting("batch:ended").await), None);
    assert_eq!(ok(store.setting("batch-end:ended").await), None);
    assert!(ok(store.setting("batch:open").await).is_some());
}

/// One call removes at most `limit` rows of each kind; further calls remove the remaining ones.
pub async fn old_rows_are_removed_in_slices(site: &dyn Site) {
    let store = site.join();
    for n in 0..5 {
        let key = format!("{BATCH_END}{n}");
        ok(store.set_setting_once(&key, "{}").await);
    }
    let slice = OldRows {
        limit: 2,
        ..all_before(later(&*store))
    };
    for rows in [2, 2, 1, 0] {
        assert_eq!(ok(store.remove_old(slice).await), removed(rows));
    }
}
