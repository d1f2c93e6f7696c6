//! Tests of commands, claims, sessions and timers.

use std::sync::Arc;
use std::time::Duration;

use model::command::{Fence, TimerChange};
use model::event::{ControlNote, EventBody, EventLocation, StopRequest, UniqueKey};
use model::id::{LeaseEpoch, Seq, WorkerId};

use super::build::{PlainStep, create_offered_command, creation_commit, next_commit, start_execution};
use super::{StoreFixture, expect_ok};
use crate::{ClaimQuery, CommandChange, CommitStatus, Error, SessionHolder, Store};

const LONG_TTL: Duration = Duration::from_secs(3600);

fn claim_query(worker: &str, max: u32) -> ClaimQuery {
    ClaimQuery {
        worker: WorkerId(worker.into()),
        pool: "default".into(),
        max,
        owner: None,
        kinds: None,
    }
}

/// Workers that claim concurrently share the commands without overlap.
pub async fn a_command_is_claimed_by_one_worker_only(site: &dyn StoreFixture) {
    const COMMANDS: usize = 40;
    let store = site.join();
    for _ in 0..COMMANDS {
        create_offered_command(&*store, &[]).await;
    }
    let workers = (0..4).map(|n| {
        let store: Arc<dyn Store> = site.join();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let batch = expect_ok(store.claim_commands(&claim_query(&format!("w{n}"), 3)).await);
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
pub async fn paused_and_cancelling_executions_offer_nothing(site: &dyn StoreFixture) {
    let store = site.join();
    for body in [
        EventBody::PlaybookPaused(ControlNote { reason: None }),
        EventBody::CancelRequested(StopRequest::default()),
    ] {
        let id = create_offered_command(&*store, &[]).await;
        let stop = vec![(EventLocation::default(), body)];
        expect_ok(store.commit(next_commit(&*store, id, Seq(4), stop)).await);
        assert!(expect_ok(store.claim_commands(&claim_query("w", 9)).await).is_empty());
    }
}

/// Each claim has its own epoch.
pub async fn a_released_command_comes_back_with_a_higher_epoch(site: &dyn StoreFixture) {
    let store = site.join();
    let id = create_offered_command(&*store, &[]).await;
    let first = expect_ok(store.claim_commands(&claim_query("w1", 1)).await).remove(0);
    assert_eq!((first.command.id.execution, first.lease_epoch), (id, LeaseEpoch(1)));
    expect_ok(store.release_claim(first.command.id, LeaseEpoch(9)).await);
    assert!(expect_ok(store.claim_commands(&claim_query("w2", 1)).await).is_empty());
    expect_ok(store.release_claim(first.command.id, LeaseEpoch(1)).await);
    let second = expect_ok(store.claim_commands(&claim_query("w2", 1)).await).remove(0);
    assert_eq!(second.lease_epoch, LeaseEpoch(2));
}

/// Only a report under the current claim is written.
pub async fn a_stale_claim_is_fenced_and_leaves_nothing(site: &dyn StoreFixture) {
    let store = site.join();
    let id = create_offered_command(&*store, &[]).await;
    let report = |lease_epoch| {
        let mut commit = PlainStep::new("a", 1).finish(&*store, id, Seq(4));
        commit.fences.push(Fence {
            command: Seq(4),
            lease_epoch: LeaseEpoch(lease_epoch),
        });
        commit.commands.push(CommandChange::Close { seq: Seq(4) });
        commit
    };
    assert_eq!(expect_ok(store.commit(report(0)).await), CommitStatus::Fenced);
    let claim = expect_ok(store.claim_commands(&claim_query("w1", 1)).await).remove(0);
    expect_ok(store.release_claim(claim.command.id, claim.lease_epoch).await);
    assert_eq!(expect_ok(store.commit(report(1)).await), CommitStatus::Fenced);
    expect_ok(store.claim_commands(&claim_query("w2", 1)).await);
    assert_eq!(expect_ok(store.commit(report(1)).await), CommitStatus::Fenced);
    assert_eq!(expect_ok(store.events(id, Seq(0), 99).await).len(), 4);
    assert_eq!(expect_ok(store.commit(report(2)).await), CommitStatus::Committed);
    assert!(expect_ok(store.open_commands(id).await).is_empty());
    assert_eq!(expect_ok(store.commit(report(2)).await), CommitStatus::Fenced);
}

/// A claim expires with its worker's session, by the store's clock.
pub async fn a_claim_is_lost_with_its_session(site: &dyn StoreFixture) {
    let store = site.join();
    create_offered_command(&*store, &[]).await;
    let claim = expect_ok(store.claim_commands(&claim_query("w", 1)).await).remove(0);
    assert_eq!(expect_ok(store.lost_claims(None).await).len(), 1);
    let worker = WorkerId("w".into());
    let holder = session_holder("one");
    assert!(expect_ok(store.renew_session(&worker, &holder, LONG_TTL).await));
    assert!(expect_ok(store.lost_claims(None).await).is_empty());
    assert!(expect_ok(store.renew_session(&worker, &holder, Duration::ZERO).await));
    let lost_claim = expect_ok(store.lost_claims(None).await).remove(0);
    assert_eq!((lost_claim.command, lost_claim.worker), (claim.command.id, worker));
    assert_eq!(lost_claim.lease_epoch, claim.lease_epoch);
}

/// A session belongs to its holder until another one replaces it; the claims of the first holder are then lost.
pub async fn a_session_belongs_to_its_holder(site: &dyn StoreFixture) {
    let store = site.join();
    create_offered_command(&*store, &[]).await;
    let worker = WorkerId("w".into());
    let (first_holder, second_holder) = (session_holder("one"), session_holder("two"));
    assert_eq!(expect_ok(store.session(&worker).await), None);
    assert!(expect_ok(store.renew_session(&worker, &first_holder, LONG_TTL).await));
    assert!(!expect_ok(store.renew_session(&worker, &second_holder, LONG_TTL).await));
    let claim = expect_ok(store.claim_commands(&claim_query("w", 1)).await).remove(0);
    let session = expect_ok(store.session(&worker).await);
    assert_eq!(
        session.map(|session| (session.holder, session.is_alive)),
        Some((Some(first_holder.clone()), true))
    );
    assert!(!expect_ok(
        store
            .replace_session(&worker, &second_holder, &first_holder, LONG_TTL)
            .await
    ));
    assert!(expect_ok(store.lost_claims(None).await).is_empty());

    assert!(expect_ok(
        store
            .replace_session(&worker, &first_holder, &second_holder, LONG_TTL)
            .await
    ));
    assert!(!expect_ok(store.renew_session(&worker, &first_holder, LONG_TTL).await));
    assert!(expect_ok(store.renew_session(&worker, &second_holder, LONG_TTL).await));
    assert!(expect_ok(store.worker_claims(&worker).await).is_empty());
    let lost_claim = expect_ok(store.lost_claims(None).await).remove(0);
    assert_eq!((lost_claim.command, &lost_claim.worker), (claim.command.id, &worker));

    expect_ok(store.release_claim(claim.command.id, claim.lease_epoch).await);
    expect_ok(store.claim_commands(&claim_query("w", 1)).await);
    assert!(expect_ok(store.lost_claims(None).await).is_empty());
    assert_eq!(expect_ok(store.worker_claims(&worker).await).len(), 1);
    assert!(expect_ok(
        store.renew_session(&worker, &second_holder, Duration::ZERO).await
    ));
    let session = expect_ok(store.session(&worker).await);
    assert!(session.is_some_and(|session| !session.is_alive));
}

fn session_holder(name: &str) -> SessionHolder {
    SessionHolder(name.into())
}

/// A command that no worker claims in time is reported as overdue.
pub async fn a_pending_command_becomes_overdue(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let mut commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    if let CommandChange::Issue(issue) = &mut commit.commands[0] {
        issue.start_by = Some(store.now());
    }
    expect_ok(store.commit(commit).await);
    create_offered_command(&*store, &[]).await;
    let overdue = expect_ok(store.overdue_commands(None).await);
    assert_eq!(overdue.iter().map(|id| id.execution).collect::<Vec<_>>(), [id]);
    expect_ok(store.claim_commands(&claim_query("w", 9)).await);
    assert!(expect_ok(store.overdue_commands(None).await).is_empty());
}

/// There is one command per part of a step run and dispatch.
pub async fn the_same_work_is_not_offered_twice_at_once(site: &dyn StoreFixture) {
    let store = site.join();
    let id = create_offered_command(&*store, &[]).await;
    let repeat = PlainStep::new("a", 1).schedule(&*store, id, Seq(4));
    let refused = store.commit(repeat).await;
    let is_named = matches!(&refused, Err(Error::Invariant(UniqueKey::Work(_))));
    assert!(is_named, "{refused:?}");
    assert_eq!(expect_ok(store.open_commands(id).await).len(), 1);
}

/// Timers are returned when due, until they are cleared.
pub async fn timers_are_due_in_order_until_cleared(site: &dyn StoreFixture) {
    let store = site.join();
    let now = store.now();
    let later = now.after(LONG_TTL);
    let mut first = creation_commit(&*store);
    let id = first.execution;
    let set = |seq, due| TimerChange::Set { seq: Seq(seq), due };
    let past = model::time::Time(now.0 - 5);
    first.timers = vec![set(1, later), set(2, now), set(3, past)];
    expect_ok(store.commit(first).await);
    assert_eq!(expect_ok(store.due_timers(None, 9).await), [(id, Seq(3)), (id, Seq(2))]);
    assert_eq!(expect_ok(store.due_timers(None, 1).await), [(id, Seq(3))]);
    assert_eq!(expect_ok(store.next_timer(None, later).await), Some(past));
    let me = expect_ok(store.owner());
    assert!(expect_ok(store.due_timers(Some(&me), 9).await).is_empty());
    let mut clear = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    clear.timers = [2, 3].map(|seq| TimerChange::Clear { seq: Seq(seq) }).into();
    expect_ok(store.commit(clear).await);
    assert!(expect_ok(store.due_timers(None, 9).await).is_empty());
    assert_eq!(expect_ok(store.next_timer(None, now).await), None);
    assert_eq!(expect_ok(store.next_timer(None, later).await), Some(later));
}
