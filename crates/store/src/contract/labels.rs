//! Labels of executions.

use model::event::EventBody;
use model::id::ExecutionId;
use model::labels::Labels;
use model::status::RunStatus;

use super::{StoreFixture, creation_commit, expect_ok};
use crate::{ExecutionFilter, ExecutionSearch, Store};

/// Labels of the given keys and values.
fn to_labels(pairs: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::default();
    for (key, value) in pairs {
        labels.insert(key, value).expect("valid labels");
    }
    labels
}

/// Creates an execution with these labels.
async fn create_labelled(store: &dyn Store, pairs: &[(&str, &str)]) -> ExecutionId {
    let mut commit = creation_commit(store);
    if let EventBody::ExecutionRequested(request) = &mut commit.events[0].body {
        request.labels = to_labels(pairs);
    }
    let id = commit.execution;
    expect_ok(store.commit(commit).await);
    id
}

/// A list by labels has the executions with all of them, and other conditions narrow it.
pub async fn executions_are_listed_by_label(site: &dyn StoreFixture) {
    let store = site.join();
    let first = create_labelled(&*store, &[("team", "x"), ("env", "prod")]).await;
    let second = create_labelled(&*store, &[("team", "x")]).await;
    create_labelled(&*store, &[("team", "y")]).await;
    create_labelled(&*store, &[]).await;
    let list = async |labels: &[(&str, &str)], filter: ExecutionFilter| -> Vec<ExecutionId> {
        let labels = to_labels(labels);
        let filter = ExecutionFilter { labels, ..filter };
        let rows = expect_ok(store.executions(&filter).await);
        let facets = expect_ok(store.execution_facets(&filter).await);
        let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, facets.iter().map(|row| row.id).collect::<Vec<_>>());
        ids
    };
    let all = ExecutionFilter::default;
    assert_eq!(list(&[("team", "x")], all()).await, [second, first]);
    assert_eq!(list(&[("team", "x"), ("env", "prod")], all()).await, [first]);
    assert!(list(&[("team", "x"), ("env", "test")], all()).await.is_empty());
    let running = ExecutionFilter {
        statuses: vec![RunStatus::Running, RunStatus::Paused],
        paths: vec!["examples/hello".into()],
        before: Some(second),
        ..all()
    };
    assert_eq!(list(&[("team", "x")], running).await, [first]);
    let failed = ExecutionFilter {
        search: ExecutionSearch {
            error_code: Some("HTTP_STATUS".to_owned()),
            ..ExecutionSearch::default()
        },
        ..all()
    };
    assert!(list(&[("team", "x")], failed).await.is_empty());
}

/// Labels come from the log alone.
pub async fn labels_are_rebuilt_from_the_log(site: &dyn StoreFixture) {
    let store = site.join();
    let pairs = [("team", "x"), ("env", "prod")];
    let labelled = create_labelled(&*store, &pairs).await;
    let plain = create_labelled(&*store, &[]).await;
    for _ in 0..2 {
        let labels = expect_ok(store.labels(&[plain, labelled]).await);
        assert_eq!(labels.into_iter().collect::<Vec<_>>(), [(labelled, to_labels(&pairs))]);
        expect_ok(store.rebuild_projections().await);
    }
}
