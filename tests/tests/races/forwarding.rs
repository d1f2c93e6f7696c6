//! Events that reach a server which does not own the run are forwarded; that server does not load the run.

use serde_json::{Value, json};
use tests::peers::FaultProxy;

use crate::node::{ServerNode, SharedStoreFixture, start_node, start_node_behind};

const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two_steps}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
    next: two
  - step: two
    tool: {kind: noop, result: 2}
";

/// How often `ctx` is written, and how much each time: the log becomes this much larger than the forwarded events.
const PATCHES: usize = 30;
const PATCH_BYTES: usize = 60_000;
/// More than forwarding events takes, and much less than reading the log.
const READ_MAX: u64 = 200_000;

/// An event of an older client for a command that it has claimed.
fn legacy_event(claimed: &Value, name: &str) -> Value {
    let command = &claimed["command"];
    let id = command["id"].as_str().expect("a command has an id");
    json!({
        "execution_id": id.split('.').next(),
        "node_name": command["run"]["step"],
        "name": name,
        "context": {"result": 1},
        "meta": {"command_id": id, "lease_epoch": claimed["lease_epoch"]},
        "worker_id": "old-worker",
    })
}

async fn claim_command(node: &ServerNode) -> Value {
    let request = json!({"worker": "old-worker", "max": 1, "wait_ms": 10_000});
    let response = node.post("/api/commands/claim", &request).await;
    response.body["commands"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_older_clients_are_passed_on_without_loading_the_run() {
    let shared_store = SharedStoreFixture::database();
    let driver = start_node(&shared_store).await;
    let network = FaultProxy::start(&shared_store.server_address());
    let other = start_node_behind(&shared_store, Some(network.port())).await;
    driver.register("two_steps", PLAYBOOK).await;
    let id = driver.execute(&json!({"path": "two_steps"})).await;
    let first = claim_command(&other).await;
    for n in 0..PATCHES {
        let text = format!("{n}").repeat(PATCH_BYTES);
        let patch = json!({"variables": {"text": &text[..PATCH_BYTES]}});
        let route = format!("/api/vars/{id}");
        let patched = driver.post(&route, &patch).await;
        assert_eq!(patched.status, 200, "{patched:?}");
    }

    let before = network.response_bytes();
    let response = other.post("/api/events", &legacy_event(&first, "call.done")).await;
    assert_eq!(response.body["status"], "recorded", "{response:?}");
    let second = claim_command(&other).await;
    let batch = json!({"execution_id": id.to_string(), "worker_id": "old-worker",
        "events": [legacy_event(&second, "call.done")]});
    let response = other.post("/api/events/batch", &batch).await;
    assert_eq!(response.body["events"][0]["status"], "recorded", "{response:?}");
    let second_response = other.post("/api/events/batch", &batch).await;
    assert_eq!(
        second_response.body["events"][0]["status"], "duplicate",
        "{second_response:?}"
    );
    let mut later = legacy_event(&second, "step.exit");
    later["context"]["result"] = json!(2);
    let later = other.post("/api/events", &later).await;
    assert_eq!(later.body["status"], "known", "{later:?}");
    let read = network.response_bytes() - before;
    assert!(read < READ_MAX, "{read} bytes were read to pass events on");

    // What loading the run there would have read.
    let before = network.response_bytes();
    let loaded = other.store.load(id, server::SNAPSHOT_VERSION).await;
    assert!(loaded.is_ok_and(|loaded| loaded.is_some()));
    let read = network.response_bytes() - before;
    assert!(read > READ_MAX, "loading the run reads only {read} bytes");
}
