//! Every server on a store checks sessions that workers started at another server.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::node::{ServerNode, SharedStoreFixture, start_node};

const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one_step}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
";

/// Registers `w` at a server, and returns the secret of its session.
async fn register_session(node: &ServerNode) -> String {
    let request = json!({"worker": "w", "session_secret": true});
    let response = node.post("/api/worker/pool/register", &request).await;
    let secret = response.body["session_secret"].as_str();
    secret.expect("the worker is registered").to_owned()
}

/// Calls a route with a session secret; returns the status and the error code.
async fn call_route(node: &ServerNode, secret: Option<&str>, path: &str, body: &Value) -> (StatusCode, Value) {
    let mut request = reqwest::Client::new().post(format!("{}{path}", node.url)).json(body);
    if let Some(secret) = secret {
        request = request.header(wire::SESSION_HEADER, secret);
    }
    let response = request.send().await.expect("the server responds");
    let status = response.status();
    (status, response.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_on_a_store_checks_the_secret_of_a_session() {
    let shared_store = SharedStoreFixture::database();
    let (first_node, two) = (start_node(&shared_store).await, start_node(&shared_store).await);
    let secret = register_session(&first_node).await;
    let beat = json!({"worker": "w", "holds": []});
    let path = "/api/worker/pool/heartbeat";
    for node in [&first_node, &two] {
        let (status, response) = call_route(node, Some(&secret), path, &beat).await;
        assert_eq!(status, StatusCode::OK, "{response}");
    }
    let name = json!({"worker": "w"});
    let claim = json!({"worker": "w", "max": 1, "wait_ms": 0});
    for node in [&first_node, &two] {
        for (path, body) in [
            (path, &beat),
            ("/api/commands/claim", &claim),
            ("/api/worker/pool/listen", &name),
            ("/api/worker/pool/deregister", &name),
        ] {
            for wrong in [None, Some("0.0")] {
                let (status, response) = call_route(node, wrong, path, body).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {response}");
                assert_eq!(response["code"], "SESSION_MISMATCH", "{path}: {response}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_reconnects_to_another_server_gets_its_work_again() {
    let shared_store = SharedStoreFixture::database();
    let (first_node, two) = (start_node(&shared_store).await, start_node(&shared_store).await);
    let killed = register_session(&first_node).await;
    first_node.register("one_step", PLAYBOOK).await;
    first_node.execute(&json!({"path": "one_step"})).await;
    let claim = json!({"worker": "w", "max": 1, "wait_ms": 10_000});
    let path = "/api/commands/claim";
    let (_, before) = call_route(&first_node, Some(&killed), path, &claim).await;
    let run = &before["commands"][0]["command"]["run"];
    assert!(run.is_object(), "{before}");

    let restarted = register_session(&two).await;
    let (_, after) = call_route(&two, Some(&restarted), path, &claim).await;
    assert_eq!(after["commands"][0]["command"]["run"], *run, "{after}");
    let beat = json!({"worker": "w", "holds": []});
    let (status, response) = call_route(&first_node, Some(&killed), "/api/worker/pool/heartbeat", &beat).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{response}");
}
