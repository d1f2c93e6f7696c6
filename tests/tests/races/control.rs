//! Control requests to a server that does not own the run.

use std::time::Duration;

use model::event::Body;
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::json;
use tests::peers::Proxy;

use crate::node::{LOOK, Node, Place, node, node_by_way_of};

const FAILS: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails}
workflow:
  - step: one
    tool: {kind: shell, command: 'exit 3'}
";

const WAITS: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits}
workflow:
  - step: ask
    tool: {kind: wait, signal: go}
    next: end
  - step: end
    tool: {kind: noop, result: 2}
";

/// A failed run that a server owns.
async fn failed_run(node: &Node) -> ExecutionId {
    node.register("fails", FAILS).await;
    let id = node.execute(&json!({"path": "fails"})).await;
    node.result(id).await;
    id
}

async fn generation(node: &Node, id: ExecutionId) -> u32 {
    let row = node.store.execution(id).await.expect("the store responds");
    row.expect("the run exists").generation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_is_answered_well_has_happened_although_its_driver_died() {
    let place = Place::database();
    let network = Proxy::start(&place.server_address());
    let driver = node_by_way_of(&place, Some(network.port())).await;
    let other = node(&place).await;
    let worker = driver.employ("worker");
    let id = failed_run(&driver).await;
    drop(worker);
    // From here on the owner cannot communicate, and no other server has noticed it yet.
    network.refuse(true);
    network.cut();
    let path = format!("/api/executions/{id}/retry");
    let answered = other.post(&path, &json!({})).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(
        generation(&other, id).await,
        2,
        "the response states what happened"
    );
}

async fn one_of_two_retries_is_carried_out(driver: &Node, other: &Node) {
    let _worker = driver.employ("worker");
    for _ in 0..5 {
        let id = failed_run(driver).await;
        let path = format!("/api/executions/{id}/retry");
        let retry = json!({});
        let (one, two, three) = tokio::join!(
            other.post(&path, &retry),
            other.post(&path, &retry),
            driver.post(&path, &retry)
        );
        let answers = [one, two, three];
        let done = answers.iter().filter(|answer| answer.status == 200).count();
        let retried = generation(driver, id).await as usize - 1;
        assert_eq!(done, retried, "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!(answer.status, 409, "{answer:?}");
            assert_eq!(answer.body["code"], "NOT_RETRYABLE", "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_retries_at_once_as_many_are_answered_well_as_happened_in_a_directory() {
    let place = Place::directory();
    let (driver, other) = (node(&place).await, node(&place).await);
    one_of_two_retries_is_carried_out(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_retries_at_once_as_many_are_answered_well_as_happened_in_a_database() {
    let place = Place::database();
    let (driver, other) = (node(&place).await, node(&place).await);
    one_of_two_retries_is_carried_out(&driver, &other).await;
}

async fn signals_that_are_answered_well_are_in_the_log(driver: &Node, other: &Node) {
    let _worker = driver.employ("worker");
    driver.register("waits", WAITS).await;
    for _ in 0..5 {
        let id = driver.execute(&json!({"path": "waits"})).await;
        let path = format!("/api/executions/{id}/signal/go");
        let signals = (0..6).map(|n| {
            let path = path.clone();
            async move { other.post(&path, &json!({"n": n})).await }
        });
        let answers = futures_util::future::join_all(signals).await;
        driver.result(id).await;
        let events = driver.store.events(id, Seq(0), 1_000).await;
        let events = events.expect("the log is readable");
        let is_signal =
            |event: &&model::event::Event| matches!(event.body, Body::SignalReceived(_));
        let recorded = events.iter().filter(is_signal).count();
        let done = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(done, recorded, "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!(answer.body["code"], "EXECUTION_ENDED", "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_through_another_server_are_answered_as_they_went_in_a_directory() {
    let place = Place::directory();
    let (driver, other) = (node(&place).await, node(&place).await);
    signals_that_are_answered_well_are_in_the_log(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_through_another_server_are_answered_as_they_went_in_a_database() {
    let place = Place::database();
    let (driver, other) = (node(&place).await, node(&place).await);
    signals_that_are_answered_well_are_in_the_log(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_to_the_run_of_a_dead_server_is_taken_up_by_another() {
    let place = Place::directory();
    let (driver, other) = (node(&place).await, node(&place).await);
    driver.register("waits", WAITS).await;
    let id = driver.execute(&json!({"path": "waits"})).await;
    // A message that the owner has not consumed when it crashes.
    driver.server.clone().stop().await;
    let cancel = engine::MessageBody::Cancel(model::event::StopRequested {
        reason: None,
        cascade: false,
        ending: None,
    });
    let message = store::Message {
        key: store::MessageKey {
            from: ExecutionId(other.store.ids(1).0),
            seq: Seq(0),
            n: 0,
        },
        to: id,
        body: model::raw::Raw::of(&cancel),
    };
    other
        .store
        .send(message, store::Priority::Control)
        .await
        .expect("the store responds");
    drop(driver);
    let is_cancelled = async {
        loop {
            let row = other.store.execution(id).await.expect("the store responds");
            if row.is_some_and(|row| row.status == RunStatus::Cancelled) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let cancelled = tokio::time::timeout(Duration::from_secs(20), is_cancelled).await;
    cancelled.expect("the message was consumed");
}
