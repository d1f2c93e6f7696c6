//! Tests of what operators look at: queues, leases, sessions, the end of the audit log, and sizes.

use std::time::Duration;

use model::event::{ControlNote, EventBody, EventLocation};
use model::id::{Name, Seq, WorkerId};
use model::status::RunStatus;

use super::build::{create_offered_command, next_commit, start_execution};
use super::{StoreFixture, expect_ok};
use crate::{AuditEntry, AuditOutcome, ClaimQuery, PendingScope, SessionHolder};

fn claim_query(worker: &WorkerId) -> ClaimQuery {
    ClaimQuery {
        worker: worker.clone(),
        pool: "default".into(),
        max: 1,
        owner: None,
        kinds: None,
    }
}

/// Pending commands come with their kinds and the status of their execution; claimed ones are not among them.
pub async fn pending_commands_are_listed_by_pool_and_by_execution(site: &dyn StoreFixture) {
    let store = site.join();
    let monitoring = store.monitoring_store();
    assert_eq!(expect_ok(monitoring.pending_pools(9).await), Vec::<Name>::new());
    let claimed = create_offered_command(&*store, &[]).await;
    let worker = WorkerId("w".into());
    assert_eq!(expect_ok(store.claim_commands(&claim_query(&worker)).await).len(), 1);
    let paused = create_offered_command(&*store, &["gpu", "http"]).await;
    let pause = vec![(
        EventLocation::default(),
        EventBody::PlaybookPaused(ControlNote { reason: None }),
    )];
    expect_ok(store.commit(next_commit(&*store, paused, Seq(4), pause)).await);
    let running = create_offered_command(&*store, &[]).await;

    let pool = Name::from("default");
    assert_eq!(
        expect_ok(monitoring.pending_pools(9).await),
        std::slice::from_ref(&pool)
    );
    assert!(expect_ok(monitoring.pending_pools(0).await).is_empty());
    let scope = PendingScope::Pool(pool);
    let pending = expect_ok(monitoring.pending_commands(&scope, 9).await);
    let ids: Vec<_> = pending.iter().map(|pending| pending.command.id.execution).collect();
    assert_eq!(ids, [paused, running]);
    assert_eq!(pending[0].kinds, [Name::from("gpu"), Name::from("http")]);
    assert_eq!(
        (pending[0].status, pending[1].status),
        (RunStatus::Paused, RunStatus::Running)
    );
    assert!(
        pending
            .iter()
            .all(|pending| !pending.is_cancelling && pending.owner.is_none())
    );
    assert_eq!(expect_ok(monitoring.pending_commands(&scope, 1).await).len(), 1);
    let of = async |id| expect_ok(monitoring.pending_commands(&PendingScope::Execution(id), 9).await);
    assert_eq!(of(running).await, pending[1..]);
    assert!(of(claimed).await.is_empty());
}

/// A claimed command comes with its worker, whose description only the holder of its session sets.
pub async fn claimed_commands_are_listed_with_their_sessions(site: &dyn StoreFixture) {
    let store = site.join();
    let monitoring = store.monitoring_store();
    let (worker, lost) = (WorkerId("a".into()), WorkerId("b".into()));
    let holder = SessionHolder("one".into());
    assert!(expect_ok(
        store.renew_session(&worker, &holder, Duration::from_secs(60)).await
    ));
    expect_ok(
        monitoring
            .describe_worker(&worker, &SessionHolder("two".into()), "foreign")
            .await,
    );
    let sessions = expect_ok(monitoring.worker_sessions(9).await);
    assert_eq!((sessions.len(), &sessions[0].description), (1, &None));
    expect_ok(monitoring.describe_worker(&worker, &holder, "own").await);
    let sessions = expect_ok(monitoring.worker_sessions(9).await);
    assert_eq!(sessions[0].description.as_deref(), Some("own"));
    assert!(sessions[0].is_alive && sessions[0].expires_at > store.now());
    // A renewal does not change the description.
    assert!(expect_ok(store.renew_session(&worker, &holder, Duration::ZERO).await));
    let sessions = expect_ok(monitoring.worker_sessions(9).await);
    assert_eq!(
        (sessions[0].is_alive, sessions[0].description.as_deref()),
        (false, Some("own"))
    );

    assert!(expect_ok(monitoring.claimed_commands(9).await).is_empty());
    let mut ids = Vec::new();
    for name in [&lost, &worker] {
        ids.push(create_offered_command(&*store, &[]).await);
        assert_eq!(expect_ok(store.claim_commands(&claim_query(name)).await).len(), 1);
    }
    let claimed = expect_ok(monitoring.claimed_commands(9).await);
    let workers: Vec<_> = claimed
        .iter()
        .map(|row| (&row.worker, row.command.id.execution))
        .collect();
    assert_eq!(workers, [(&worker, ids[1]), (&lost, ids[0])]);
    assert_eq!(claimed[0].expires_at, Some(sessions[0].expires_at));
    assert_eq!(claimed[1].expires_at, None);
    assert!(claimed.iter().all(|row| row.claimed_at.is_some()));
    assert_eq!(expect_ok(monitoring.claimed_commands(1).await).len(), 1);
}

/// The newest entries come first, and the next page continues before the last one.
pub async fn the_audit_log_is_read_from_its_end(site: &dyn StoreFixture) {
    let store = site.join();
    for action in ["one", "two", "three"] {
        let entry = AuditEntry {
            actor: "ann".to_owned(),
            action: action.into(),
            resource: String::new(),
            outcome: AuditOutcome::Done,
            source: None,
            detail: None,
        };
        expect_ok(store.add_audit_entry(entry).await);
    }
    let monitoring = store.monitoring_store();
    let newest = expect_ok(monitoring.audit_entries_before(u64::MAX, 2).await);
    let ids: Vec<u64> = newest.iter().map(|row| row.id).collect();
    assert_eq!(ids, [3, 2]);
    let older = expect_ok(monitoring.audit_entries_before(2, 9).await);
    assert_eq!(older.iter().map(|row| row.id).collect::<Vec<_>>(), [1]);
}

/// Executions are counted up to a limit.
pub async fn a_store_knows_its_size(site: &dyn StoreFixture) {
    let store = site.join();
    let before = expect_ok(store.monitoring_store().size(9).await).executions;
    start_execution(&*store, None).await;
    start_execution(&*store, None).await;
    let counted = async |max| expect_ok(store.monitoring_store().size(max).await).executions;
    assert_eq!(counted(9).await, before + 2);
    assert_eq!(counted(1).await, 1);
}
