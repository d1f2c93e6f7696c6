//! Tests of commands, claims, sessions and timers.

use std::sync::Arc;
use std::time::Duration;

use model::event::{At, Body, Note, StopRequested};
use model::id::{ExecutionId, LeaseEpoch, Seq, WorkerId};

use super::build::{PlainStep, next, request};
use super::{Site, ok};
use model::command::TimerChange;

use crate::{Ask, CommandChange, Committed, Error, Fence, Key, SessionHolder, Store};

const LONG: Duration = Duration::from_secs(3600);

fn ask(worker: &str, max: u32) -> Ask {
    Ask {
        worker: WorkerId(worker.into()),
        pool: "default".into(),
        max,
        owner: None,
        kinds: None,
    }
}

/// Creates an execution whose first step is offered: the log is at 4, and the command is event 4.
async fn offered(store: &dyn Store) -> ExecutionId {
    let first = request(store);
    let id = first.execution;
    ok(store.commit(first).await);
    ok(store
        .commit(PlainStep::new("a", 1).schedule(store, id, Seq(2)))
        .await);
    id
}

/// Workers that claim concurrently share the commands without overlap.
pub async fn a_command_is_claimed_by_one_worker_only(site: &dyn Site) {
    const COMMANDS: usize = 40;
    let store = site.join();
    for _ in 0..COMMANDS {
        offered(&*store).await;
    }
    let workers = (0..4).map(|n| {
        let store: Arc<dyn Store> = site.join();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let batch = ok(store.claim(&ask(&format!("w{n}"), 3)).await);
                if batch.is_empty() {
                    return claimed;
                }
                claimed.extend(batch.into_iter().map(|claim| claim.command.id));
            }
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await.expect("claiming does not panic"));
    }
    assert_eq!(all.len(), COMMANDS);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), COMMANDS);
}

/// No command of a paused or cancelling execution is assigned.
pub async fn paused_and_cancelling_executions_offer_nothing(site: &dyn Site) {
    let store = site.join();
    for body in [
        Body::PlaybookPaused(Note { reason: None }),
        Body::CancelRequested(StopRequested::default()),
    ] {
        let id = offered(&*store).await;
        let stop = vec![(At::default(), body)];
        ok(store.commit(next(&*store, id, Seq(4), stop)).await);
        assert!(ok(store.claim(&ask("w", 9)).await).is_empty());
    }
}

/// Each claim has its own epoch.
pub async fn a_released_command_comes_back_with_a_higher_epoch(site: &dyn Site) {
    let store = site.join();
    let id = offered(&*store).await;
    let first = ok(store.claim(&ask("w1", 1)).await).remove(0);
    assert_eq!(
        (first.command.id.execution, first.lease_epoch),
        (id, LeaseEpoch(1))
    );
    ok(store.release(first.command.id, LeaseEpoch(9)).await);
    assert!(ok(store.claim(&ask("w2", 1)).await).is_empty());
    ok(store.release(first.command.id, LeaseEpoch(1)).await);
    let second = ok(store.claim(&ask("w2", 1)).await).remove(0);
    assert_eq!(second.lease_epoch, LeaseEpoch(2));
}

/// Only a report under the current claim is written.
pub async fn a_stale_claim_is_fenced_and_leaves_nothing(site: &dyn Site) {
    let store = site.join();
    let id = offered(&*store).await;
    let report = |lease_epoch| {
        let mut commit = PlainStep::new("a", 1).finish(&*store, id, Seq(4));
        commit.fences.push(Fence {
            command: Seq(4),
            lease_epoch: LeaseEpoch(lease_epoch),
        });
        commit.commands.push(CommandChange::Close { seq: Seq(4) });
        commit
    };
    assert_eq!(ok(store.commit(report(0)).await), Committed::Fenced);
    let claim = ok(store.claim(&ask("w1", 1)).await).remove(0);
    ok(store.release(claim.command.id, claim.lease_epoch).await);
    assert_eq!(ok(store.commit(report(1)).await), Committed::Fenced);
    ok(store.claim(&ask("w2", 1)).await);
    assert_eq!(ok(store.commit(report(1)).await), Committed::Fenced);
    assert_eq!(ok(store.events(id, Seq(0), 99).await).len(), 4);
    assert_eq!(ok(store.commit(report(2)).await), Committed::Done);
    assert!(ok(store.open_commands(id).await).is_empty());
    assert_eq!(ok(store.commit(report(2)).await), Committed::Fenced);
}

/// A claim expires with its worker's session, by the store's clock.
pub async fn a_claim_is_lost_with_its_session(site: &dyn Site) {
    let store = site.join();
    offered(&*store).await;
    let claim = ok(store.claim(&ask("w", 1)).await).remove(0);
    assert_eq!(ok(store.lost_claims(None).await).len(), 1);
    let worker = WorkerId("w".into());
    let holder = holder("one");
    assert!(ok(store.renew(&worker, &holder, LONG).await));
    assert!(ok(store.lost_claims(None).await).is_empty());
    assert!(ok(store.renew(&worker, &holder, Duration::ZERO).await));
    let lost = ok(store.lost_claims(None).await).remove(0);
    assert_eq!((lost.command, lost.worker), (claim.command.id, worker));
    assert_eq!(lost.lease_epoch, claim.lease_epoch);
}

/// A session belongs to its holder until another one replaces it; the claims of the first holder are then lost.
pub async fn a_session_belongs_to_its_holder(site: &dyn Site) {
    let store = site.join();
    offered(&*store).await;
    let worker = WorkerId("w".into());
    let (one, two) = (holder("one"), holder("two"));
    assert_eq!(ok(store.session(&worker).await), None);
    assert!(ok(store.renew(&worker, &one, LONG).await));
    assert!(!ok(store.renew(&worker, &two, LONG).await));
    let claim = ok(store.claim(&ask("w", 1)).await).remove(0);
    let session = ok(store.session(&worker).await);
    assert_eq!(
        session.map(|session| (session.holder, session.is_alive)),
        Some((Some(one.clone()), true))
    );
    assert!(!ok(store.replace_session(&worker, &two, &one, LONG).await));
    assert!(ok(store.lost_claims(None).await).is_empty());

    assert!(ok(store.replace_session(&worker, &one, &two, LONG).await));
    assert!(!ok(store.renew(&worker, &one, LONG).await));
    assert!(ok(store.renew(&worker, &two, LONG).await));
    assert!(ok(store.held(&worker).await).is_empty());
    let lost = ok(store.lost_claims(None).await).remove(0);
    assert_eq!((lost.command, &lost.worker), (claim.command.id, &worker));

    ok(store.release(claim.command.id, claim.lease_epoch).await);
    ok(store.claim(&ask("w", 1)).await);
    assert!(ok(store.lost_claims(None).await).is_empty());
    assert_eq!(ok(store.held(&worker).await).len(), 1);
    assert!(ok(store.renew(&worker, &two, Duration::ZERO).await));
    let session = ok(store.session(&worker).await);
    assert!(session.is_some_and(|session| !session.is_alive));
}

fn holder(name: &str) -> SessionHolder {
    SessionHolder(name.into())
}

/// A command that no worker claims in time is reported as overdue.
pub async fn a_pending_command_becomes_overdue(site: &dyn Site) {
    let store = site.join();
    let first = request(&*store);
    let id = first.execution;
    ok(store.commit(first).await);
    let mut commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    if let CommandChange::Issue(issue) = &mut commit.commands[0] {
        issue.start_by = Some(store.now());
    }
    ok(store.commit(commit).await);
    offered(&*store).await;
    let overdue = ok(store.overdue_commands(None).await);
    assert_eq!(
        overdue.iter().map(|id| id.execution).collect::<Vec<_>>(),
        [id]
    );
    ok(store.claim(&ask("w", 9)).await);
    assert!(ok(store.overdue_commands(None).await).is_empty());
}

/// There is one command per part of a step run and dispatch.
pub async fn the_same_work_is_not_offered_twice_at_once(site: &dyn Site) {
    let store = site.join();
    let id = offered(&*store).await;
    let again = PlainStep::new("a", 1).schedule(&*store, id, Seq(4));
    let refused = store.commit(again).await;
    let is_named = matches!(&refused, Err(Error::Invariant(Key::Work(_))));
    assert!(is_named, "{refused:?}");
    assert_eq!(ok(store.open_commands(id).await).len(), 1);
}

/// Timers are returned when due, until they are cleared.
pub async fn timers_are_due_in_order_until_cleared(site: &dyn Site) {
    let store = site.join();
    let now = store.now();
    let later = now.after(LONG);
    let mut first = request(&*store);
    let id = first.execution;
    let set = |seq, due| TimerChange::Set { seq: Seq(seq), due };
    let past = model::time::Time(now.0 - 5);
    first.timers = vec![set(1, later), set(2, now), set(3, past)];
    ok(store.commit(first).await);
    assert_eq!(
        ok(store.due_timers(None, 9).await),
        [(id, Seq(3)), (id, Seq(2))]
    );
    assert_eq!(ok(store.due_timers(None, 1).await), [(id, Seq(3))]);
    assert_eq!(ok(store.next_timer(None, later).await), Some(past));
    let me = ok(store.owner());
    assert!(ok(store.due_timers(Some(&me), 9).await).is_empty());
    let mut clear = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    clear.timers = [2, 3]
        .map(|seq| TimerChange::Clear { seq: Seq(seq) })
        .into();
    ok(store.commit(clear).await);
    assert!(ok(store.due_timers(None, 9).await).is_empty());
    assert_eq!(ok(store.next_timer(None, now).await), None);
    assert_eq!(ok(store.next_timer(None, later).await), Some(later));
}
