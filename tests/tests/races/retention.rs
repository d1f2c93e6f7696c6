//! The server deletes rows that only serve deduplication when their retention has passed.

use std::time::Duration;

use model::id::ExecutionId;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::node::{POLL_INTERVAL, ServerNode, SharedStoreFixture, start_node};

const CHILD: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
";

const PARENT: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent}
workflow:
  - step: one
    tool: {kind: playbook, path: child}
";

/// Longer than every retention.
const SHIFT_CLOCK_SQL: &str = "CREATE OR REPLACE FUNCTION noetl.micros() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 8 * 86400 * 1000000::bigint $$";

/// How long the server may take to delete a few rows.
const REMOVAL_MAX: Duration = Duration::from_secs(30);

/// Consumed messages and settings that the requests of the test left behind.
async fn rows_left(raw: &Client) -> (i64, i64) {
    const COUNT: &str = "SELECT (SELECT count(*) FROM noetl.message),
        (SELECT count(*) FROM noetl.setting WHERE key ~ '^(batch|batch-end|dedup):')";
    let row = raw.query_one(COUNT, &[]).await.expect("the store's tables");
    (row.get(0), row.get(1))
}

/// Sends a batch that is decided later, and waits for its end.
async fn send_batch(node: &ServerNode, execution: ExecutionId) -> Value {
    let event = json!({"event_type": "call.done", "step": "one", "payload": {}});
    let batch = json!({"execution_id": execution.to_string(), "events": [event]});
    let client = reqwest::Client::new();
    let request = client
        .post(format!("{}/api/events/batch", node.url))
        .header("prefer", "respond-async")
        .header("idempotency-key", "once")
        .json(&batch);
    let response = request.send().await.expect("the server responds");
    assert_eq!(response.status(), 202);
    loop {
        let status = client.get(format!("{}/api/events/batch/once/status", node.url));
        let status = status.send().await.expect("the server responds");
        let status: Value = status.json().await.expect("JSON");
        if status["status"] != "accepted" {
            return status;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn batches_in_log(node: &ServerNode, execution: ExecutionId) -> usize {
    let events = node.store.events(execution, model::id::Seq(0), 1_000);
    let events = events.await.expect("a log");
    let names = events.iter().map(|event| event.kind().to_string());
    names
        .filter(|name| name == "batch.accepted" || name == "batch.failed")
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_messages_and_states_of_batches_are_removed_after_their_retention() {
    let shared_store = SharedStoreFixture::database();
    let raw = shared_store.raw_client().await;
    {
        let node = start_node(&shared_store).await;
        node.register("child", CHILD).await;
        node.register("parent", PARENT).await;
        let worker = node.start_worker("worker");
        let execution = node.execute(&json!({"path": "parent", "dedup": "once"})).await;
        node.wait_for_result(execution).await;
        send_batch(&node, execution).await;
        let recorded = batches_in_log(&node, execution).await;
        assert!(recorded > 0, "the batch is in the log");
        send_batch(&node, execution).await;
        assert_eq!(batches_in_log(&node, execution).await, recorded);
        // The start of the child, its end, and the batch; the batch's two settings and the `dedup` key.
        assert_eq!(rows_left(&raw).await, (3, 3));
        drop(worker);
        node.shut_down(&raw).await;
    }
    raw.batch_execute(SHIFT_CLOCK_SQL).await.expect("the store's clock");

    let _node = start_node(&shared_store).await;

    let deadline = Instant::now() + REMOVAL_MAX;
    while rows_left(&raw).await != (0, 0) {
        let left = rows_left(&raw).await;
        assert!(Instant::now() < deadline, "{left:?} rows are left");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
