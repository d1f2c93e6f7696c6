//! Control requests to a server that does not own the run.

use std::time::Duration;

use model::event::EventBody;
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::json;
use tests::peers::FaultProxy;

use crate::node::{POLL_INTERVAL, ServerNode, SharedStoreFixture, start_node, start_node_behind};

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
async fn start_failed_run(node: &ServerNode) -> ExecutionId {
    node.register("fails", FAILS).await;
    let id = node.execute(&json!({"path": "fails"})).await;
    node.wait_for_result(id).await;
    id
}

async fn run_generation(node: &ServerNode, id: ExecutionId) -> u32 {
    let row = node.store.execution(id).await.expect("the store responds");
    row.expect("the run exists").generation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_retry_takes_effect_although_its_driver_crashed() {
    let shared_store = SharedStoreFixture::database();
    let network = FaultProxy::start(&shared_store.server_address());
    let driver = start_node_behind(&shared_store, Some(network.port())).await;
    let other = start_node(&shared_store).await;
    let worker = driver.start_worker("worker");
    let id = start_failed_run(&driver).await;
    drop(worker);
    // From here on the owner cannot communicate, and no other server has noticed it yet.
    network.set_refusing(true);
    network.cut_connections();
    let path = format!("/api/executions/{id}/retry");
    let response = other.post(&path, &json!({})).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(run_generation(&other, id).await, 2, "the response states what happened");
}

async fn check_one_retry(driver: &ServerNode, other: &ServerNode) {
    let _worker = driver.start_worker("worker");
    for _ in 0..5 {
        let id = start_failed_run(driver).await;
        let path = format!("/api/executions/{id}/retry");
        let retry = json!({});
        let (one, two, three) = tokio::join!(
            other.post(&path, &retry),
            other.post(&path, &retry),
            driver.post(&path, &retry)
        );
        let responses = [one, two, three];
        let done = responses.iter().filter(|response| response.status == 200).count();
        let retried = run_generation(driver, id).await as usize - 1;
        assert_eq!(done, retried, "{responses:?}");
        for response in responses.iter().filter(|response| response.status != 200) {
            assert_eq!(response.status, 409, "{response:?}");
            assert_eq!(response.body["code"], "NOT_RETRYABLE", "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_retries_take_effect_as_often_as_they_are_accepted_in_a_directory() {
    let shared_store = SharedStoreFixture::directory();
    let (driver, other) = (start_node(&shared_store).await, start_node(&shared_store).await);
    check_one_retry(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_retries_take_effect_as_often_as_they_are_accepted_in_a_database() {
    let shared_store = SharedStoreFixture::database();
    let (driver, other) = (start_node(&shared_store).await, start_node(&shared_store).await);
    check_one_retry(&driver, &other).await;
}

async fn check_signals_recorded(driver: &ServerNode, other: &ServerNode) {
    let _worker = driver.start_worker("worker");
    driver.register("waits", WAITS).await;
    for _ in 0..5 {
        let id = driver.execute(&json!({"path": "waits"})).await;
        let path = format!("/api/executions/{id}/signal/go");
        let signals = (0..6).map(|n| {
            let path = path.clone();
            async move { other.post(&path, &json!({"n": n})).await }
        });
        let responses = futures_util::future::join_all(signals).await;
        driver.wait_for_result(id).await;
        let events = driver.store.events(id, Seq(0), 1_000).await;
        let events = events.expect("the log is readable");
        let is_signal = |event: &&model::event::Event| matches!(event.body, EventBody::SignalReceived(_));
        let recorded = events.iter().filter(is_signal).count();
        let done = responses.iter().filter(|response| response.status == 200).count();
        assert_eq!(done, recorded, "{responses:?}");
        for response in responses.iter().filter(|response| response.status != 200) {
            assert_eq!(response.body["code"], "EXECUTION_ENDED", "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_through_another_server_report_their_effect_in_a_directory() {
    let shared_store = SharedStoreFixture::directory();
    let (driver, other) = (start_node(&shared_store).await, start_node(&shared_store).await);
    check_signals_recorded(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_through_another_server_report_their_effect_in_a_database() {
    let shared_store = SharedStoreFixture::database();
    let (driver, other) = (start_node(&shared_store).await, start_node(&shared_store).await);
    check_signals_recorded(&driver, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_the_run_of_a_crashed_server_are_handled_by_another() {
    let shared_store = SharedStoreFixture::directory();
    let (driver, other) = (start_node(&shared_store).await, start_node(&shared_store).await);
    driver.register("waits", WAITS).await;
    let id = driver.execute(&json!({"path": "waits"})).await;
    // A message that the owner has not consumed when it crashes.
    driver.server.clone().stop().await;
    let cancel = engine::ExecutionMessage::Control(engine::ControlRequest::Cancel(model::event::StopRequest {
        reason: None,
        cascade: false,
        ending: None,
    }));
    let message = store::Message {
        key: store::MessageKey {
            from: ExecutionId(other.store.ids(1).0),
            seq: Seq(0),
            n: 0,
        },
        to: id,
        body: model::raw::RawJson::from_serializable(&cancel),
    };
    other
        .store
        .send_message(message, store::Priority::Control)
        .await
        .expect("the store responds");
    drop(driver);
    let is_cancelled = async {
        loop {
            let row = other.store.execution(id).await.expect("the store responds");
            if row.is_some_and(|row| row.status == RunStatus::Cancelled) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let cancelled = tokio::time::timeout(Duration::from_secs(20), is_cancelled).await;
    cancelled.expect("the message was consumed");
}
