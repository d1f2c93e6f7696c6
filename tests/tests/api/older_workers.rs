//! Workers of an older version at a newer server.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, http_client, read_response};

const LOOP: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: numbers}
workflow:
  - step: each
    loop: {in: '{{ range(2, 9, 3) }}', iterator: n}
    tool: {kind: noop, result: '{{ iter.n }}'}
";

/// Loads the `loop.started` of a run as a worker with this version of the protocol.
async fn load_loop_started(fixture: &ApiFixture, execution: &str, version: Option<&str>) -> Value {
    let path = format!("/api/executions/{execution}/events?limit=100");
    let page = fixture.get(&path).await;
    let events = page.body["events"].as_array().unwrap();
    let started = events
        .iter()
        .find(|event| event["event_type"] == "loop.started")
        .unwrap();
    let body = json!({"execution_id": execution, "seqs": [started["seq"]]});
    let url = format!("{}/api/commands/events", fixture.url);
    let mut request = http_client().post(url).json(&body);
    if let Some(version) = version {
        request = request.header("x-noetl-protocol", version);
    }
    let loaded = read_response(request.send().await.unwrap()).await;
    assert_eq!(loaded.status, StatusCode::OK, "{:?}", loaded.body);
    loaded.body["events"][0][1]["payload"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_the_first_version_gets_the_items_of_a_range() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(LOOP).await;

    let old = load_loop_started(&fixture, &execution, None).await;
    assert_eq!(old["collection"], json!([2, 5, 8]), "{old}");
    assert_eq!(old["range"], Value::Null, "{old}");

    let new = load_loop_started(&fixture, &execution, Some("2")).await;
    assert_eq!(new["collection"], Value::Null, "{new}");
    assert!(new["range"].is_object() || new["range"].is_array(), "{new}");
}
