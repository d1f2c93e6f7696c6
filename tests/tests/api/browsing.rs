//! What the web client reads: filtered lists and their counts, and the graph of a run.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::events::{claim_command, legacy_event};
use crate::fixture::{ApiFixture, ApiResponse};

/// A route without tasks, then a task that waits for a worker.
const ROUTED: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: routed, path: demo/routed }
workflow:
  - step: start
    desc: chooses a branch
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: left, when: \"{{ workload.side == 'left' }}\" }
        - { step: right, when: \"{{ workload.side == 'right' }}\" }
  - step: left
    tool: { kind: noop }
  - step: right
    tool:
      - first: { kind: noop }
      - second: { kind: noop }
workload: { side: right }
";

fn ids(response: &ApiResponse) -> Vec<&str> {
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let runs = response.body["executions"].as_array().unwrap().iter();
    runs.map(|run| run["execution_id"].as_str().unwrap()).collect()
}

fn named<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    let entry = list.as_array().unwrap().iter().find(|entry| entry[field] == name);
    entry.unwrap_or_else(|| panic!("{name} is missing in {list}"))
}

async fn cancel(fixture: &ApiFixture, execution: &str) {
    let path = format!("/api/executions/{execution}/cancel");
    let cancelled = fixture.post(&path, &json!({"reason": "enough"})).await;
    assert_eq!(cancelled.status, StatusCode::OK, "{:?}", cancelled.body);
    fixture.wait_for_end(&format!("/api/executions/{execution}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_filtered_and_counted_alike() {
    let fixture = ApiFixture::open().await;
    let other = ROUTED.replace("routed", "other");
    let first = fixture.execute(ROUTED).await;
    let second = fixture.execute(ROUTED).await;
    let third = fixture.execute(&other).await;
    cancel(&fixture, &second).await;
    let all = [third.as_str(), &second, &first];
    for (query, expected) in [
        ("", &all[..]),
        ("status=CANCELLED", &[second.as_str()]),
        ("status=running,cancelled", &all),
        ("path=demo%2Frouted", &all[1..]),
        ("path=demo%2F*", &all),
        ("path=none*", &[]),
        ("q=OTHER", &all[..1]),
        (&format!("q={first}"), &all[2..]),
        ("q=100%25", &[]),
        ("error_code=NONE", &[]),
        ("since=1h&max_duration=1h", &all),
        ("until=1h", &[]),
        ("min_duration=1h", &[]),
        (
            "since=2000-01-01T00:00:00Z&status=RUNNING&path=demo%2Frouted",
            &all[2..],
        ),
    ] {
        let list = fixture.get(&format!("/api/executions?{query}")).await;
        assert_eq!(ids(&list), expected, "{query}");
        let facets = fixture.get(&format!("/api/executions/facets?{query}")).await;
        assert_eq!(facets.status, StatusCode::OK, "{query}: {:?}", facets.body);
        assert_eq!(facets.body["total"], expected.len(), "{query}");
        assert_eq!(facets.body["is_complete"], true);
        let buckets = facets.body["histogram"]["buckets"].as_array().unwrap().iter();
        let counted = buckets.flat_map(|bucket| bucket["counts"].as_object().unwrap().values());
        let counted: u64 = counted.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, expected.len() as u64, "{query}: {}", facets.body["histogram"]);
    }
    let facets = fixture.get("/api/executions/facets").await.body;
    assert_eq!(named(&facets["statuses"], "value", "RUNNING")["count"], 2);
    assert_eq!(named(&facets["paths"], "value", "demo/routed")["count"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_filter_is_named() {
    let fixture = ApiFixture::open().await;
    for (path, field) in [
        ("/api/executions?status=LOST", "status"),
        ("/api/executions?since=yesterday", "since"),
        ("/api/executions?min_duration=long", "min_duration"),
        ("/api/executions?color=red", "color"),
        ("/api/executions/facets?limit=5", "limit"),
        ("/api/executions/stream?cursor=5", "cursor"),
        ("/api/executions/stream?status=LOST", "status"),
    ] {
        let response = fixture.get(path).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert_eq!(response.error_code(), "PARAMETER_INVALID", "{path}");
        let detail = response.body["detail"].as_str().unwrap();
        assert!(detail.contains(field), "{path}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_of_a_run_shows_what_happened_and_why() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ROUTED).await;
    let path = format!("/api/executions/{execution}/graph");
    let claimed = claim_command(&fixture, "old-worker").await;
    let graph = fixture.get(&path).await.body;
    assert_eq!(graph["entry"], "start");
    let start = named(&graph["steps"], "step", "start");
    assert_eq!(
        (&start["status"], &start["kind"], &start["line"], &start["description"]),
        (
            &json!("success"),
            &json!("route"),
            &json!(6),
            &json!("chooses a branch")
        )
    );
    let left = named(&graph["steps"], "step", "left");
    assert_eq!((&left["status"], &left["runs"]), (&json!("not_reached"), &json!(0)));
    let right = named(&graph["steps"], "step", "right");
    assert_eq!(
        (&right["status"], &right["kind"]),
        (&json!("waiting"), &json!("pipeline"))
    );
    let refused = named(&graph["arcs"], "to", "left");
    assert_eq!((&refused["followed"], &refused["refused"]), (&json!(0), &json!(1)));
    assert_eq!(refused["last"]["value"], false);
    assert_eq!(refused["when"], "{{ workload.side == 'left' }}");
    let followed = named(&graph["arcs"], "to", "right");
    assert_eq!((&followed["followed"], &followed["refused"]), (&json!(1), &json!(0)));

    let mut started = legacy_event(&claimed, "task.started", &json!({}));
    started["task_label"] = json!("first");
    let mut done = legacy_event(
        &claimed,
        "task.done",
        &json!({"outcome": {"status": "ok", "result": 1}}),
    );
    done["task_label"] = json!("first");
    for event in [legacy_event(&claimed, "step.started", &json!({})), started, done] {
        let response = fixture.post("/api/events", &event).await;
        assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    }
    let graph = fixture.get(&path).await.body;
    let right = named(&graph["steps"], "step", "right");
    assert_eq!(right["status"], "running", "{right}");
    assert_eq!(named(&right["tasks"], "label", "first")["status"], "success");
    assert_eq!(named(&right["tasks"], "label", "second")["status"], "not_reached");

    cancel(&fixture, &execution).await;
    let graph = fixture.get(&path).await.body;
    assert_eq!(graph["status"], "CANCELLED");
    assert_eq!(named(&graph["steps"], "step", "right")["status"], "cancelled");
    let run = fixture.get(&format!("/api/executions/{execution}/status")).await.body;
    assert_eq!(graph["seq"], run["seq"]);
}
