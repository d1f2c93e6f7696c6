//! Tests of access tokens, the audit log, settings, the outbox, claimed commands, tool kinds and execution owners.

use std::sync::Arc;

use model::event::{ControlNote, EventBody, EventLocation, StopRequest};
use model::id::{ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::raw::RawJson;
use model::time::Time;

use super::build::{PlainStep, create_offered_command, creation_commit, next_commit, start_execution};
use super::{StoreFixture, expect_ok};
use crate::{
    AccessTokenId, AccessTokenRow, AuditEntry, AuditOutcome, AuditRow, ClaimQuery, CommandChange, CommitStatus, Store,
    StoreProcess,
};

fn access_token(id: i64, byte: u8) -> AccessTokenRow {
    AccessTokenRow {
        id: AccessTokenId(id),
        name: format!("token {id}"),
        hash: [byte; 32],
        role: "operator".into(),
        created_at: Time(id),
        expires_at: Some(Time(99)),
        last_used_at: None,
        revoked_at: None,
    }
}

/// A token is found by its hash, even after revocation.
pub async fn a_token_is_found_by_its_hash_and_keeps_its_revocation(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    expect_ok(first_store.put_token(access_token(2, 7)).await);
    expect_ok(first_store.put_token(access_token(1, 8)).await);
    assert_eq!(
        expect_ok(second_store.token_by_hash(&[7; 32]).await),
        Some(access_token(2, 7))
    );
    assert_eq!(expect_ok(second_store.token_by_hash(&[9; 32]).await), None);
    assert_eq!(
        expect_ok(second_store.tokens().await),
        [access_token(1, 8), access_token(2, 7)]
    );
    expect_ok(second_store.touch_token(AccessTokenId(2)).await);
    expect_ok(second_store.revoke_token(AccessTokenId(2)).await);
    let first = expect_ok(first_store.token_by_hash(&[7; 32]).await).expect("the token exists");
    assert!(first.last_used_at.is_some() && first.revoked_at.is_some());
    expect_ok(first_store.revoke_token(AccessTokenId(2)).await);
    assert_eq!(expect_ok(first_store.token_by_hash(&[7; 32]).await), Some(first));
    let untouched = expect_ok(first_store.token_by_hash(&[8; 32]).await).expect("the token exists");
    assert_eq!((untouched.last_used_at, untouched.revoked_at), (None, None));
}

/// Concurrent writers produce one hash chain.
pub async fn the_audit_trail_is_one_chain(site: &dyn StoreFixture) {
    const EACH: usize = 10;
    let writers = ["ann", "bob"].map(|actor| {
        let store: Arc<dyn Store> = site.join();
        tokio::spawn(async move {
            for n in 0..EACH {
                let entry = AuditEntry {
                    actor: actor.to_owned(),
                    action: "execution.start".into(),
                    resource: n.to_string(),
                    outcome: AuditOutcome::Denied,
                    source: Some("127.0.0.1".to_owned()),
                    detail: Some(RawJson::from_serializable(&n)),
                };
                expect_ok(store.add_audit_entry(entry).await);
            }
        })
    });
    for writer in writers {
        writer.await.expect("writing does not panic");
    }
    let store = site.join();
    let mut before = AuditRow::START;
    let mut after = 0;
    loop {
        let page = expect_ok(store.audit_entries(after, 7).await);
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        after = last.id;
        for row in page {
            assert!(row.follows(&before), "{row:?}");
            before = row.hash;
        }
    }
    assert_eq!(after, 2 * EACH as u64);
}

/// The first value of a setting stays.
pub async fn a_setting_is_set_once(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    assert_eq!(expect_ok(first_store.setting("color").await), None);
    assert_eq!(expect_ok(first_store.set_setting_once("color", "red").await), "red");
    assert_eq!(expect_ok(second_store.set_setting_once("color", "blue").await), "red");
    assert_eq!(expect_ok(second_store.setting("color").await).as_deref(), Some("red"));
    let secret = expect_ok(first_store.setting("cluster_secret").await);
    assert!(secret.as_ref().is_some_and(|secret| secret.len() >= 16));
    assert_eq!(expect_ok(second_store.setting("cluster_secret").await), secret);
}

fn claim_query(worker: &str, kinds: Option<&[&str]>) -> ClaimQuery {
    ClaimQuery {
        worker: WorkerId(worker.into()),
        pool: "default".into(),
        max: 9,
        owner: None,
        kinds: kinds.map(|kinds| kinds.iter().copied().map(Into::into).collect()),
    }
}

/// A worker only receives commands that it can run.
pub async fn a_command_goes_only_to_a_worker_that_serves_its_kinds(site: &dyn StoreFixture) {
    let store = site.join();
    let both = create_offered_command(&*store, &["http", "python"]).await;
    let any = create_offered_command(&*store, &[]).await;
    let claimed = async |kinds: Option<&[&str]>| -> Vec<ExecutionId> {
        let claims = expect_ok(store.claim_commands(&claim_query("w", kinds)).await);
        claims.into_iter().map(|claim| claim.command.id.execution).collect()
    };
    assert_eq!(claimed(Some(&["http"])).await, [any]);
    assert!(claimed(Some(&[])).await.is_empty());
    assert_eq!(claimed(Some(&["python", "shell", "http"])).await, [both]);
    let unlimited = create_offered_command(&*store, &["duckdb"]).await;
    assert_eq!(claimed(None).await, [unlimited]);
}

/// A worker sees its claimed commands, and whether their executions are paused or cancelled.
pub async fn a_worker_sees_what_it_holds(site: &dyn StoreFixture) {
    let store = site.join();
    let before = store.now();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(create_offered_command(&*store, &[]).await);
        expect_ok(store.claim_commands(&claim_query("w", None)).await);
    }
    for (id, body) in [
        (ids[1], EventBody::PlaybookPaused(ControlNote { reason: None })),
        (ids[2], EventBody::CancelRequested(StopRequest::default())),
    ] {
        let turn = vec![(EventLocation::default(), body)];
        expect_ok(store.commit(next_commit(&*store, id, Seq(4), turn)).await);
    }
    let claims = expect_ok(site.join().worker_claims(&WorkerId("w".into())).await);
    let claimed: Vec<_> = claims
        .iter()
        .map(|claims| (claims.claim.command.execution, claims.is_paused, claims.is_cancelling))
        .collect();
    let expected = [
        (ids[0], false, false),
        (ids[1], true, false),
        (ids[2], false, true),
        (ids[3], false, false),
    ];
    assert_eq!(claimed, expected);
    assert!(
        claims
            .iter()
            .all(|claims| claims.claimed_at >= before && claims.claim.lease_epoch == LeaseEpoch(1))
    );
    expect_ok(
        store
            .release_claim(claims[3].claim.command, claims[3].claim.lease_epoch)
            .await,
    );
    assert_eq!(expect_ok(store.worker_claims(&WorkerId("w".into())).await), claims[..3]);
    assert!(expect_ok(store.worker_claims(&WorkerId("x".into())).await).is_empty());
}

/// A command that is assigned in the commit that issues it counts as claimed.
pub async fn a_command_issued_to_a_worker_is_held_by_it(site: &dyn StoreFixture) {
    let store = site.join();
    let id = start_execution(&*store, None).await;
    let mut commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    let worker = WorkerId("w".into());
    if let CommandChange::Issue(issue) = &mut commit.commands[0] {
        issue.claimed = Some((worker.clone(), LeaseEpoch(1)));
    }
    expect_ok(store.commit(commit).await);
    let claims = expect_ok(store.worker_claims(&worker).await);
    assert_eq!(claims.len(), 1);
    assert_eq!(
        (claims[0].claim.command.execution, claims[0].claim.lease_epoch),
        (id, LeaseEpoch(1))
    );
}

/// A commit may close work and offer it again, in this order only.
pub async fn work_withdrawn_first_may_be_offered_again_in_one_commit(site: &dyn StoreFixture) {
    let store = site.join();
    let id = create_offered_command(&*store, &[]).await;
    let close = CommandChange::Close { seq: Seq(4) };
    let mut late = PlainStep::new("a", 1).schedule(&*store, id, Seq(4));
    late.commands.push(close.clone());
    let refused = store.commit(late).await;
    let is_named = matches!(&refused, Err(crate::Error::Invariant(model::event::UniqueKey::Work(_))));
    assert!(is_named, "{refused:?}");
    let mut reissue = PlainStep::new("a", 1).schedule(&*store, id, Seq(4));
    reissue.commands.insert(0, close);
    assert_eq!(expect_ok(store.commit(reissue).await), CommitStatus::Committed);
    let open = expect_ok(store.open_commands(id).await);
    assert_eq!(
        open.iter().map(|open| open.command.id.seq).collect::<Vec<_>>(),
        [Seq(6)]
    );
}

/// A process sees the live processes and the owners of executions.
pub async fn processes_see_each_other(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    let (me, other) = (expect_ok(first_store.owner()), expect_ok(second_store.owner()));
    let alive = |peer: &StoreProcess, owner| peer.owner == owner && peer.is_alive;
    let peers = expect_ok(first_store.processes().await);
    assert!(peers.iter().any(|peer| alive(peer, me.clone())), "{peers:?}");
    assert!(peers.iter().any(|peer| alive(peer, other.clone())), "{peers:?}");
    let mut first = creation_commit(&*second_store);
    first.creation.owner = Some(other.clone());
    let other_owner_run = first.execution;
    expect_ok(second_store.commit(first).await);
    let driver = expect_ok(first_store.owner_of(other_owner_run).await).expect("the execution has an owner");
    assert!(alive(&driver, other));
    let mut first = creation_commit(&*second_store);
    first.creation.owner = Some(crate::OwnerId("nobody".into()));
    let orphan = first.execution;
    expect_ok(second_store.commit(first).await);
    let driver = expect_ok(first_store.owner_of(orphan).await).expect("the owner is recorded");
    assert!(!driver.is_alive);
    let free = creation_commit(&*second_store);
    let id = free.execution;
    expect_ok(second_store.commit(free).await);
    assert_eq!(expect_ok(first_store.owner_of(id).await), None);
    assert_eq!(expect_ok(first_store.owner_of(ExecutionId(1)).await), None);
}

/// Every process sees which processes publish events.
pub async fn processes_that_publish_are_marked(site: &dyn StoreFixture) {
    let (silent_store, publishing_store) = (site.join(), site.join_publishing());
    let silent = expect_ok(silent_store.owner());
    let publishing = expect_ok(publishing_store.owner());
    for store in [&silent_store, &publishing_store] {
        let processes = expect_ok(store.processes().await);
        let publishes = |owner| {
            let process = processes.iter().find(|process| process.owner == owner);
            process.map(|process| (process.is_alive, process.publishes))
        };
        assert_eq!(publishes(silent.clone()), Some((true, false)));
        assert_eq!(publishes(publishing.clone()), Some((true, true)));
    }
}

/// A publisher reads each append once and in order, until it confirms the publication.
pub async fn appends_wait_in_the_outbox_until_they_are_published(site: &dyn StoreFixture) {
    let store = site.join_publishing();
    let id = create_offered_command(&*store, &[]).await;
    let other = creation_commit(&*store);
    let other_id = other.execution;
    expect_ok(store.commit(other).await);
    let stale_commit = PlainStep::new("b", 1).schedule(&*store, id, Seq(2));
    expect_ok(store.commit(stale_commit).await);
    // An open transaction of another process delays later rows, because it may still write earlier ones.
    let mut waiting = Vec::new();
    for _ in 0..1_000_000 {
        waiting = expect_ok(store.outbox(0, 9).await);
        if waiting.len() >= 3 {
            break;
        }
    }
    let rows: Vec<_> = waiting
        .iter()
        .map(|row| (row.execution, row.seq_first, row.seq_last))
        .collect();
    assert_eq!(
        rows,
        [(id, Seq(1), Seq(2)), (id, Seq(3), Seq(4)), (other_id, Seq(1), Seq(2))]
    );
    assert!(waiting.is_sorted_by_key(|row| row.position));
    let first = waiting[0].position;
    assert_eq!(expect_ok(store.outbox(first, 9).await), waiting[1..]);
    assert_eq!(expect_ok(store.outbox(0, 1).await), waiting[..1]);
    expect_ok(store.mark_published(waiting[1].position).await);
    assert_eq!(expect_ok(site.join().outbox(0, 9).await), waiting[2..]);
}

/// Without a publisher, the outbox stays empty.
pub async fn a_store_that_does_not_publish_leaves_the_outbox_empty(site: &dyn StoreFixture) {
    let store = site.join();
    create_offered_command(&*store, &[]).await;
    assert!(expect_ok(store.outbox(0, 9).await).is_empty());
}

/// A working store reports that it is healthy.
pub async fn a_store_that_works_is_healthy(site: &dyn StoreFixture) {
    let store = site.join();
    expect_ok(store.check_health());
    create_offered_command(&*store, &[]).await;
    expect_ok(store.check_health());
}
