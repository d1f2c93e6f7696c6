//! Tests of what executions and processes share: messages, the catalog, ownership, and concurrent appends.

use std::sync::Arc;

use model::id::{ExecutionId, Seq};
use model::raw::RawJson;

use super::build::{PlainStep, creation_commit, start_execution};
use super::{StoreFixture, expect_ok};
use crate::{Adoption, CommitStatus, Message, MessageKey, OwnerId, Priority, Store};

pub(super) fn message(from: ExecutionId, n: u32, to: ExecutionId) -> Message {
    Message {
        key: MessageKey { from, seq: Seq(2), n },
        to,
        body: RawJson::from_serializable("start"),
    }
}

/// A message is sent with the sender's commit, removed with the receiver's commit, and not delivered again.
pub async fn a_message_arrives_once(site: &dyn StoreFixture) {
    let store = site.join();
    let receiver = start_execution(&*store, None).await;
    let mut sender = creation_commit(&*store);
    let letter = message(sender.execution, 0, receiver);
    sender.messages.push(letter.clone());
    expect_ok(store.commit(sender).await);
    expect_ok(store.send_message(letter.clone(), Priority::Normal).await);
    assert_eq!(expect_ok(store.inbox(None, 9).await), std::slice::from_ref(&letter));
    assert!(expect_ok(store.is_pending(letter.key).await));
    let mut reply = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    reply.consumed.push(letter.key);
    expect_ok(store.commit(reply).await);
    assert!(!expect_ok(store.is_pending(letter.key).await));
    expect_ok(store.send_message(letter, Priority::Normal).await);
    assert!(expect_ok(store.inbox(None, 9).await).is_empty());
}

/// Each process receives the messages to the executions it owns.
pub async fn a_message_to_a_new_execution_goes_to_its_senders_driver(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    let (me, other) = (expect_ok(first_store.owner()), expect_ok(second_store.owner()));
    let own_run = start_execution(&*first_store, Some(me.clone())).await;
    let other_run = start_execution(&*second_store, Some(other.clone())).await;
    let new_id = ExecutionId(first_store.ids(1).0);
    let to_new = message(own_run, 0, new_id);
    let to_theirs = message(own_run, 1, other_run);
    expect_ok(first_store.send_message(to_new.clone(), Priority::Normal).await);
    expect_ok(first_store.send_message(to_theirs.clone(), Priority::Normal).await);
    let to_me = expect_ok(first_store.inbox(Some(&me), 9).await);
    assert_eq!(to_me, std::slice::from_ref(&to_new));
    let to_other = expect_ok(second_store.inbox(Some(&other), 9).await);
    assert_eq!(to_other, std::slice::from_ref(&to_theirs));
    assert_eq!(expect_ok(second_store.inbox(None, 9).await), [to_new, to_theirs]);
}

/// A message to an execution whose owner is dead goes to the live processes.
pub async fn a_message_to_an_execution_of_a_dead_process_goes_to_a_live_one(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    let (me, other) = (expect_ok(first_store.owner()), expect_ok(second_store.owner()));
    let other_run = start_execution(&*second_store, Some(other)).await;
    let orphan = start_execution(&*first_store, Some(OwnerId("nobody".into()))).await;
    let new_id = || ExecutionId(first_store.ids(1).0);
    let to_theirs = message(new_id(), 0, other_run);
    let to_orphan = message(new_id(), 0, orphan);
    expect_ok(first_store.send_message(to_theirs, Priority::Normal).await);
    expect_ok(first_store.send_message(to_orphan.clone(), Priority::Normal).await);
    assert_eq!(expect_ok(first_store.inbox(Some(&me), 9).await), [to_orphan]);
}

/// The sender can read that its message was refused, or withdraw a message that is not consumed yet.
pub async fn a_refused_message_is_answered(site: &dyn StoreFixture) {
    let store = site.join();
    let receiver = start_execution(&*store, None).await;
    let new_id = || ExecutionId(store.ids(1).0);
    let refused = message(new_id(), 0, receiver);
    expect_ok(store.send_message(refused.clone(), Priority::Normal).await);
    expect_ok(store.refuse_message(refused.key, "no").await);
    assert!(!expect_ok(store.is_pending(refused.key).await));
    assert_eq!(expect_ok(store.refusal(refused.key).await).as_deref(), Some("no"));
    assert!(!expect_ok(store.withdraw_message(refused.key).await));

    let carried_out = message(new_id(), 0, receiver);
    expect_ok(store.send_message(carried_out.clone(), Priority::Normal).await);
    let mut reply = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    reply.consumed.push(carried_out.key);
    expect_ok(store.commit(reply).await);
    expect_ok(store.refuse_message(carried_out.key, "no").await);
    assert_eq!(expect_ok(store.refusal(carried_out.key).await), None);

    let withdrawn = message(new_id(), 0, receiver);
    expect_ok(store.send_message(withdrawn.clone(), Priority::Normal).await);
    assert!(expect_ok(store.withdraw_message(withdrawn.key).await));
    assert!(expect_ok(store.inbox(None, 9).await).is_empty());
}

/// Registering the same text again changes nothing.
pub async fn the_catalog_counts_only_changes(site: &dyn StoreFixture) {
    let store = site.join();
    let first = expect_ok(store.put_playbook("a/b", "one").await);
    assert_eq!(expect_ok(store.put_playbook("a/b", "one").await), first);
    let second_entry = expect_ok(store.put_playbook("a/b", "two").await);
    assert_eq!((first.version, second_entry.version), (1, 2));
    let back = expect_ok(store.put_playbook("a/b", "one").await);
    assert_eq!(back.version, 3);
    assert_eq!(expect_ok(store.catalog_entry("a/b", None).await), Some(back.clone()));
    assert_eq!(
        expect_ok(store.catalog_entry("a/b", Some(2)).await),
        Some(second_entry.clone())
    );
    assert_eq!(expect_ok(store.catalog_entry("a/c", None).await), None);
    assert_eq!(expect_ok(store.playbook(&second_entry.hash).await), Some(second_entry));
    assert_eq!(expect_ok(store.catalog().await), [back]);
}

/// The versions of a path are listed newest first, in pages.
pub async fn versions_of_a_path_are_listed_newest_first(site: &dyn StoreFixture) {
    let store = site.join();
    let first = expect_ok(store.put_playbook("a/b", "one").await);
    for (path, text) in [("a/b", "two"), ("a/b", "one"), ("a/b/c", "other")] {
        expect_ok(store.put_playbook(path, text).await);
    }
    let numbers = async |before: Option<u32>, limit: usize| -> Vec<u32> {
        let versions = expect_ok(store.catalog_versions("a/b", before, limit).await);
        versions.iter().map(|version| version.version).collect()
    };
    assert_eq!(numbers(None, 9).await, [3, 2, 1]);
    assert_eq!(numbers(None, 2).await, [3, 2]);
    assert_eq!(numbers(Some(2), 2).await, [1]);
    let versions = expect_ok(store.catalog_versions("a/b", None, 9).await);
    let of_first = (&versions[2].hash, versions[2].registered_at);
    assert_eq!(of_first, (&first.hash, first.registered_at));
    assert!(expect_ok(store.catalog_versions("none", None, 9).await).is_empty());
}

/// Live processes keep their executions; those of dead processes can be adopted.
pub async fn an_execution_of_a_dead_process_can_be_adopted(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    let (me, other) = (expect_ok(first_store.owner()), expect_ok(second_store.owner()));
    assert_ne!(me, other);
    let own_run = start_execution(&*first_store, Some(me.clone())).await;
    let other_run = start_execution(&*second_store, Some(other.clone())).await;
    let dead = OwnerId("nobody".into());
    let orphan = start_execution(&*first_store, Some(dead)).await;
    assert_eq!(
        expect_ok(first_store.adopt(own_run, &me, Priority::Normal).await),
        Adoption::Owned
    );
    assert_eq!(
        expect_ok(first_store.adopt(other_run, &me, Priority::Normal).await),
        Adoption::OwnedBy(other)
    );
    assert_eq!(expect_ok(first_store.abandoned_executions().await), [orphan]);
    assert_eq!(
        expect_ok(first_store.adopt(orphan, &me, Priority::Normal).await),
        Adoption::Owned
    );
    assert!(expect_ok(first_store.abandoned_executions().await).is_empty());
    let row = expect_ok(second_store.execution(orphan).await).expect("the execution exists");
    assert_eq!(row.owner, Some(me.clone()));
    let nowhere = expect_ok(first_store.adopt(ExecutionId(1), &me, Priority::Normal).await);
    assert_eq!(nowhere, Adoption::NotFound);
}

/// If two processes append to one log, exactly one of them gets each sequence number.
pub async fn two_processes_appending_at_once_lose_nothing(site: &dyn StoreFixture) {
    const EACH: u32 = 15;
    let id = start_execution(&*site.join(), None).await;
    let tasks = ["a", "b"].map(|step| {
        let store: Arc<dyn Store> = site.join();
        tokio::spawn(async move {
            let mut version = Seq(2);
            for run in 1..=EACH {
                loop {
                    let commit = PlainStep::new(step, run).schedule(&*store, id, version);
                    let after = commit.version();
                    match expect_ok(store.commit(commit).await) {
                        CommitStatus::Committed => {
                            version = after;
                            break;
                        }
                        CommitStatus::VersionConflict { version: moved } => version = moved,
                        CommitStatus::Fenced => panic!("this test has no fences"),
                    }
                }
            }
        })
    });
    for task in tasks {
        task.await.expect("appending does not panic");
    }
    let store = site.join();
    let events = expect_ok(store.events(id, Seq(0), 1000).await);
    let seqs: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
    let expected: Vec<u64> = (1..=u64::from(2 + 2 * 2 * EACH)).collect();
    assert_eq!(seqs, expected);
    let mut ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

/// A waiting process is notified of other processes' commits.
pub async fn another_processes_commit_is_noticed(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    expect_ok(first_store.put_playbook("mine", "x").await);
    let waiting = {
        let first_store = Arc::clone(&first_store);
        tokio::spawn(async move { first_store.wait_for_change().await })
    };
    let mut n = 0;
    while !waiting.is_finished() {
        n += 1;
        assert!(n < 1_000_000, "the waiting process was not notified");
        expect_ok(second_store.put_playbook("theirs", &n.to_string()).await);
    }
    waiting.await.expect("waiting does not panic");
}
