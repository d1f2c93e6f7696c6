//! Tests of what executions and processes share: messages, the catalog, ownership, and concurrent appends.

use std::sync::Arc;

use model::id::{ExecutionId, Seq};
use model::raw::Raw;

use super::build::{PlainStep, request};
use super::{Site, ok};
use crate::{Adoption, Committed, Message, MessageKey, OwnerId, Priority, Store};

pub(super) fn message(from: ExecutionId, n: u32, to: ExecutionId) -> Message {
    Message {
        key: MessageKey {
            from,
            seq: Seq(2),
            n,
        },
        to,
        body: Raw::of("start"),
    }
}

pub(super) async fn started(store: &dyn Store, owner: Option<OwnerId>) -> ExecutionId {
    let mut first = request(store);
    first.creation.owner = owner;
    let id = first.execution;
    ok(store.commit(first).await);
    id
}

/// A message is sent with the sender's commit, removed with the receiver's commit, and not delivered again.
pub async fn a_message_arrives_once(site: &dyn Site) {
    let store = site.join();
    let receiver = started(&*store, None).await;
    let mut sender = request(&*store);
    let letter = message(sender.execution, 0, receiver);
    sender.messages.push(letter.clone());
    ok(store.commit(sender).await);
    ok(store.send(letter.clone(), Priority::Normal).await);
    assert_eq!(
        ok(store.inbox(None, 9).await),
        std::slice::from_ref(&letter)
    );
    assert!(ok(store.is_pending(letter.key).await));
    let mut answer = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    answer.consumed.push(letter.key);
    ok(store.commit(answer).await);
    assert!(!ok(store.is_pending(letter.key).await));
    ok(store.send(letter, Priority::Normal).await);
    assert!(ok(store.inbox(None, 9).await).is_empty());
}

/// Each process receives the messages to the executions it owns.
pub async fn a_message_to_a_new_execution_goes_to_its_senders_driver(site: &dyn Site) {
    let (here, there) = (site.join(), site.join());
    let (me, other) = (ok(here.owner()), ok(there.owner()));
    let mine = started(&*here, Some(me.clone())).await;
    let theirs = started(&*there, Some(other.clone())).await;
    let fresh = ExecutionId(here.ids(1).0);
    let to_fresh = message(mine, 0, fresh);
    let to_theirs = message(mine, 1, theirs);
    ok(here.send(to_fresh.clone(), Priority::Normal).await);
    ok(here.send(to_theirs.clone(), Priority::Normal).await);
    let to_me = ok(here.inbox(Some(&me), 9).await);
    assert_eq!(to_me, std::slice::from_ref(&to_fresh));
    let to_other = ok(there.inbox(Some(&other), 9).await);
    assert_eq!(to_other, std::slice::from_ref(&to_theirs));
    assert_eq!(ok(there.inbox(None, 9).await), [to_fresh, to_theirs]);
}

/// A message to an execution whose owner is dead goes to the live processes.
pub async fn a_message_to_what_a_dead_process_drove_goes_to_the_living(site: &dyn Site) {
    let (here, there) = (site.join(), site.join());
    let (me, other) = (ok(here.owner()), ok(there.owner()));
    let theirs = started(&*there, Some(other)).await;
    let orphan = started(&*here, Some(OwnerId("nobody".into()))).await;
    let fresh = || ExecutionId(here.ids(1).0);
    let to_theirs = message(fresh(), 0, theirs);
    let to_orphan = message(fresh(), 0, orphan);
    ok(here.send(to_theirs, Priority::Normal).await);
    ok(here.send(to_orphan.clone(), Priority::Normal).await);
    assert_eq!(ok(here.inbox(Some(&me), 9).await), [to_orphan]);
}

/// The sender can read that its message was refused, or withdraw a message that is not consumed yet.
pub async fn a_refused_message_is_answered(site: &dyn Site) {
    let store = site.join();
    let receiver = started(&*store, None).await;
    let fresh = || ExecutionId(store.ids(1).0);
    let refused = message(fresh(), 0, receiver);
    ok(store.send(refused.clone(), Priority::Normal).await);
    ok(store.refuse_message(refused.key, "no").await);
    assert!(!ok(store.is_pending(refused.key).await));
    assert_eq!(ok(store.refusal(refused.key).await).as_deref(), Some("no"));
    assert!(!ok(store.take_back(refused.key).await));

    let carried_out = message(fresh(), 0, receiver);
    ok(store.send(carried_out.clone(), Priority::Normal).await);
    let mut answer = PlainStep::new("a", 1).schedule(&*store, receiver, Seq(2));
    answer.consumed.push(carried_out.key);
    ok(store.commit(answer).await);
    ok(store.refuse_message(carried_out.key, "no").await);
    assert_eq!(ok(store.refusal(carried_out.key).await), None);

    let taken_back = message(fresh(), 0, receiver);
    ok(store.send(taken_back.clone(), Priority::Normal).await);
    assert!(ok(store.take_back(taken_back.key).await));
    assert!(ok(store.inbox(None, 9).await).is_empty());
}

/// Registering the same text again changes nothing.
pub async fn the_catalog_counts_only_changes(site: &dyn Site) {
    let store = site.join();
    let one = ok(store.put_playbook("a/b", "one").await);
    assert_eq!(ok(store.put_playbook("a/b", "one").await), one);
    let two = ok(store.put_playbook("a/b", "two").await);
    assert_eq!((one.version, two.version), (1, 2));
    let back = ok(store.put_playbook("a/b", "one").await);
    assert_eq!(back.version, 3);
    assert_eq!(ok(store.latest("a/b", None).await), Some(back.clone()));
    assert_eq!(ok(store.latest("a/b", Some(2)).await), Some(two.clone()));
    assert_eq!(ok(store.latest("a/c", None).await), None);
    assert_eq!(ok(store.playbook(&two.hash).await), Some(two));
    assert_eq!(ok(store.catalog().await), [back]);
}

/// Live processes keep their executions; those of dead processes can be adopted.
pub async fn an_execution_of_a_dead_process_can_be_adopted(site: &dyn Site) {
    let (here, there) = (site.join(), site.join());
    let (me, other) = (ok(here.owner()), ok(there.owner()));
    assert_ne!(me, other);
    let mine = started(&*here, Some(me.clone())).await;
    let theirs = started(&*there, Some(other.clone())).await;
    let dead = OwnerId("nobody".into());
    let orphan = started(&*here, Some(dead)).await;
    assert_eq!(
        ok(here.adopt(mine, &me, Priority::Normal).await),
        Adoption::Mine
    );
    assert_eq!(
        ok(here.adopt(theirs, &me, Priority::Normal).await),
        Adoption::HeldBy(other)
    );
    assert_eq!(ok(here.abandoned().await), [orphan]);
    assert_eq!(
        ok(here.adopt(orphan, &me, Priority::Normal).await),
        Adoption::Mine
    );
    assert!(ok(here.abandoned().await).is_empty());
    let row = ok(there.execution(orphan).await).expect("the execution exists");
    assert_eq!(row.owner, Some(me.clone()));
    let nowhere = ok(here.adopt(ExecutionId(1), &me, Priority::Normal).await);
    assert_eq!(nowhere, Adoption::Unknown);
}

/// If two processes append to one log, exactly one of them gets each sequence number.
pub async fn two_processes_appending_at_once_lose_nothing(site: &dyn Site) {
    const EACH: u32 = 15;
    let id = started(&*site.join(), None).await;
    let tasks = ["a", "b"].map(|step| {
        let store: Arc<dyn Store> = site.join();
        tokio::spawn(async move {
            let mut version = Seq(2);
            for run in 1..=EACH {
                loop {
                    let commit = PlainStep::new(step, run).schedule(&*store, id, version);
                    let after = commit.version();
                    match ok(store.commit(commit).await) {
                        Committed::Done => {
                            version = after;
                            break;
                        }
                        Committed::Moved { version: moved } => version = moved,
                        Committed::Fenced => panic!("this test has no fences"),
                    }
                }
            }
        })
    });
    for task in tasks {
        task.await.expect("appending does not panic");
    }
    let store = site.join();
    let events = ok(store.events(id, Seq(0), 1000).await);
    let seqs: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
    let expected: Vec<u64> = (1..=u64::from(2 + 2 * 2 * EACH)).collect();
    assert_eq!(seqs, expected);
    let mut ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

/// A waiting process is notified of other processes' commits.
pub async fn another_processes_commit_is_noticed(site: &dyn Site) {
    let (here, there) = (site.join(), site.join());
    ok(here.put_playbook("mine", "x").await);
    let waiting = {
        let here = Arc::clone(&here);
        tokio::spawn(async move { here.changed().await })
    };
    let mut n = 0;
    while !waiting.is_finished() {
        n += 1;
        assert!(n < 1_000_000, "the waiting process was not notified");
        ok(there.put_playbook("theirs", &n.to_string()).await);
    }
    waiting.await.expect("waiting does not panic");
}
