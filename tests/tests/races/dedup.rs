//! Many requests with one `dedup` key.

use std::collections::BTreeSet;
use std::time::Duration;

use model::event::EventBody;
use model::id::Seq;
use serde_json::json;
use tokio::time::Instant;

use crate::node::{NodeResponse, ServerNode, SharedStoreFixture, execution_id, start_node};

const ECHO: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: echo}
workload: {n: -1}
workflow:
  - step: one
    tool: {kind: noop, result: "{{ workload.n }}"}
    next: end
  - step: end
    tool: {kind: noop, result: {first: "{{ one }}", last: "{{ workload.n }}"}}
"#;

/// Runs that are not delayed end within this time: a lost assignment is noticed after eight seconds.
const PROMPT_MAX: Duration = Duration::from_secs(5);

/// Concurrent requests with one key and as many payloads, to these servers in turn.
async fn race_requests(nodes: &[&ServerNode], key: &str, requests: usize) -> Vec<NodeResponse> {
    let racing = (0..requests).map(|n| {
        let node = nodes[n % nodes.len()];
        async move {
            let request = json!({"path": "echo", "dedup": key, "payload": {"n": n}});
            node.post("/api/execute", &request).await
        }
    });
    futures_util::future::join_all(racing).await
}

/// The workload that the log recorded for the run.
async fn logged_payload(node: &ServerNode, id: model::id::ExecutionId) -> serde_json::Value {
    let events = node.store.events(id, Seq(0), 1).await.expect("a log");
    let EventBody::ExecutionRequested(requested) = &events[0].body else {
        panic!("a log starts with its request");
    };
    serde_json::from_str(requested.workload.text()).expect("a workload is JSON")
}

async fn check_one_run(nodes: &[&ServerNode]) {
    nodes[0].register("echo", ECHO).await;
    for round in 0..12 {
        let began = Instant::now();
        let responses = race_requests(nodes, &format!("key {round}"), 16).await;
        let ids: BTreeSet<_> = responses.iter().map(execution_id).collect();
        assert_eq!(ids.len(), 1, "one key is one run");
        let id = *ids.first().expect("there is one run");
        let result = nodes[0].wait_for_result(id).await;
        let committed = logged_payload(nodes[0], id).await;
        let n = &committed["n"];
        assert_eq!(result, json!({"first": n, "last": n}), "round {round}");
        assert!(began.elapsed() < PROMPT_MAX, "round {round} took {:?}", began.elapsed());
    }
    // No worker stays assigned to a run that lost a race.
    let began = Instant::now();
    let id = nodes[0].execute(&json!({"path": "echo"})).await;
    nodes[0].wait_for_result(id).await;
    assert!(began.elapsed() < PROMPT_MAX, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_one_key_get_one_run_and_its_payload() {
    let shared_store = SharedStoreFixture::directory();
    let node = start_node(&shared_store).await;
    let _worker = node.start_worker("worker");
    check_one_run(&[&node]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_one_key_get_one_run_and_its_payload_on_postgres() {
    let shared_store = SharedStoreFixture::database();
    let node = start_node(&shared_store).await;
    let _worker = node.start_worker("worker");
    check_one_run(&[&node]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_two_servers_on_one_directory_get_one_run() {
    let shared_store = SharedStoreFixture::directory();
    let (first, second) = (start_node(&shared_store).await, start_node(&shared_store).await);
    let (_one, _two) = (first.start_worker("one"), second.start_worker("two"));
    check_one_run(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_two_servers_on_one_database_get_one_run() {
    let shared_store = SharedStoreFixture::database();
    let (first, second) = (start_node(&shared_store).await, start_node(&shared_store).await);
    let (_one, _two) = (first.start_worker("one"), second.start_worker("two"));
    check_one_run(&[&first, &second]).await;
}
