//! Playbooks as people look at them: versions, differences, forms, graphs, callers, recent runs, and what a rerun would
//! do.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, ApiResponse};

/// Steps without tasks, so that a run ends without a worker.
const ROUTE: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: route, path: demo/route, description: routes a value }
workload:
  # How many pages are read.
  limit: 5
  db: { host: localhost }
workflow:
  - step: start
    set: { ctx.seen: "{{ workload.limit }}" }
    next: [{ step: middle }]
  - step: middle
    next: [{ step: end }]
  - step: end
    set: { ctx.done: "{{ workload.limit }}" }
    next: [{ step: after, when: "{{ workload.limit > 100 }}" }]
  - step: after
    next: []
"#;

async fn register(fixture: &ApiFixture, text: &str) {
    let registered = fixture.post("/api/catalog/register", &json!({"content": text})).await;
    assert_eq!(registered.status, StatusCode::OK, "{:?}", registered.body);
}

fn ok(response: ApiResponse) -> Value {
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    response.body
}

async fn run_to_end(fixture: &ApiFixture, text: &str) -> String {
    let id = fixture.execute(text).await;
    let ended = fixture.wait_for_end(&format!("/api/executions/{id}")).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    id
}

/// The paths of changes.
fn changed_paths(diff: &Value) -> Vec<&str> {
    let changes = diff["changes"].as_array().unwrap().iter();
    changes.map(|change| change["path"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_listed_with_their_runs_and_compared_by_meaning() {
    let fixture = ApiFixture::open().await;
    run_to_end(&fixture, ROUTE).await;
    run_to_end(&fixture, ROUTE).await;
    register(&fixture, &format!("# A comment.\n{ROUTE}")).await;
    register(&fixture, &ROUTE.replace("limit: 5", "limit: 6")).await;
    let versions = "/api/catalog/demo%2Froute/versions";
    let first_page = ok(fixture.get(&format!("{versions}?limit=2")).await);
    let numbers = |page: &Value| -> Vec<u64> {
        let entries = page["versions"].as_array().unwrap().iter();
        entries.map(|entry| entry["version"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&first_page), [3, 2]);
    assert_eq!(first_page["next_before"], 2);
    let last_page = ok(fixture.get(&format!("{versions}?limit=2&before=2")).await);
    assert_eq!(numbers(&last_page), [1]);
    assert_eq!(last_page["next_before"], Value::Null);
    assert_eq!(last_page["versions"][0]["runs"], 2);
    assert_eq!(last_page["counted_runs"], 2);
    let diff = "/api/catalog/demo%2Froute/diff";
    let comment = ok(fixture.get(&format!("{diff}?from=1&to=2")).await);
    assert_eq!(
        (&comment["is_same_text"], &comment["changes"]),
        (&json!(false), &json!([]))
    );
    let value = ok(fixture.get(&format!("{diff}?from=1")).await);
    assert_eq!((&value["from"], &value["to"]), (&json!(1), &json!(3)));
    assert_eq!(changed_paths(&value), ["workload.limit"]);
    let change = &value["changes"][0];
    assert_eq!(
        (&change["kind"], &change["section"]),
        (&json!("changed"), &json!("workload"))
    );
    assert_eq!(change["before"], json!({"text": "5", "is_truncated": false, "line": 6}));
    assert_eq!(change["after"]["text"], "6");
    let text = json!({"from": 1, "content": ROUTE.replace("routes a value", "routes")});
    let unregistered = ok(fixture.post(diff, &text).await);
    assert_eq!(unregistered["to"], Value::Null);
    assert_eq!(changed_paths(&unregistered), ["metadata.description"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_registered_is_not_found() {
    let fixture = ApiFixture::open().await;
    register(&fixture, ROUTE).await;
    for path in ["versions", "diff?from=1", "ui_schema", "graph"] {
        let missing = fixture.get(&format!("/api/catalog/none/{path}")).await;
        assert_eq!(
            (missing.status, missing.error_code()),
            (StatusCode::NOT_FOUND, "PLAYBOOK_NOT_FOUND"),
            "{path}"
        );
    }
    for path in [
        "diff?from=1&to=9",
        "diff?from=9",
        "ui_schema?version=9",
        "graph?version=9",
    ] {
        let missing = fixture.get(&format!("/api/catalog/demo%2Froute/{path}")).await;
        assert_eq!(missing.error_code(), "PLAYBOOK_NOT_FOUND", "{path}");
        assert!(
            missing.body["detail"].as_str().unwrap().contains("version 9"),
            "{:?}",
            missing.body
        );
    }
    let invalid = json!({"content": "kind: Playbook"});
    let refused = fixture.post("/api/catalog/demo%2Froute/diff", &invalid).await;
    assert_eq!(refused.error_code(), "PLAYBOOK_INVALID");
    let many: Vec<String> = (0..101).map(|number| format!("p{number}")).collect();
    let refused = fixture.post("/api/catalog/recent_runs", &json!({"paths": many})).await;
    assert_eq!(refused.error_code(), "BODY_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_and_the_graph_are_those_of_the_version() {
    let fixture = ApiFixture::open().await;
    register(&fixture, ROUTE).await;
    let second = ROUTE.replace("limit: 5", "limit: 5\n  token:\n  big: 9007199254740993");
    register(
        &fixture,
        &second
            .replace("  - step: after\n    next: []\n", "")
            .replace("after", "start"),
    )
    .await;
    let form = "/api/catalog/demo%2Froute/ui_schema";
    let first = ok(fixture.get(&format!("{form}?version=1")).await);
    assert_eq!(first["description"], "routes a value");
    let limit = json!({"type": "integer", "default": 5, "description": "How many pages are read."});
    assert_eq!(first["schema"]["properties"]["limit"], limit);
    assert_eq!(
        first["schema"]["properties"]["db"]["properties"]["host"]["default"],
        "localhost"
    );
    assert_eq!(first["schema"]["properties"].as_object().unwrap().len(), 2);
    let latest = ok(fixture.get(form).await);
    assert_eq!(
        (&latest["version"], &latest["schema"]["required"]),
        (&json!(2), &json!(["token"]))
    );
    assert_eq!(
        latest["schema"]["properties"]["big"]["default"],
        9_007_199_254_740_993_i64
    );
    let graph = "/api/catalog/demo%2Froute/graph";
    let first = ok(fixture.get(&format!("{graph}?version=1")).await);
    let steps = |graph: &Value| graph["steps"].as_array().unwrap().len();
    assert_eq!((steps(&first), &first["entry"]), (4, &json!("start")));
    assert_eq!(first["steps"][0]["status"], "not_reached");
    assert_eq!(first["arcs"][2]["when"], "{{ workload.limit > 100 }}");
    assert_eq!(steps(&ok(fixture.get(graph).await)), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_and_recent_runs_of_a_playbook_are_found() {
    let fixture = ApiFixture::open().await;
    let parent = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: parent}\nworkflow:\n\
        \x20 - step: call\n    tool: {kind: playbook, path: demo/route}\n";
    register(&fixture, parent).await;
    register(&fixture, &parent.replace("parent", "former")).await;
    register(
        &fixture,
        &parent.replace("parent", "former").replace("demo/route", "demo/other"),
    )
    .await;
    let id = run_to_end(&fixture, ROUTE).await;
    let callers = ok(fixture.get("/api/catalog/demo%2Froute/callers").await);
    assert_eq!(
        callers["callers"],
        json!([{"path": "parent", "version": 1, "step": "call", "task": "call", "line": 6}])
    );
    assert_eq!(callers["is_complete"], true);
    let paths = json!({"paths": ["demo/route", "parent"]});
    let recent = ok(fixture.post("/api/catalog/recent_runs", &paths).await);
    let runs = &recent["playbooks"][0];
    assert_eq!(runs["outcomes"][0]["execution_id"], id.as_str());
    assert_eq!(runs["outcomes"][0]["status"], "COMPLETED");
    assert_eq!(runs["measured_runs"], 1);
    assert!(runs["p50_ms"].is_u64() && runs["p50_ms"] == runs["p95_ms"], "{runs}");
    let none = json!({"path": "parent", "outcomes": [], "measured_runs": 0, "p50_ms": null, "p95_ms": null});
    assert_eq!(recent["playbooks"][1], none);
}

/// The steps that the log of a run reuses, with their events, and the steps that its first tokens are at.
async fn reused_in_log(fixture: &ApiFixture, id: &str) -> (Value, Value) {
    let log = ok(fixture.get(&format!("/api/executions/{id}/events?limit=1000")).await);
    let events = log["events"].as_array().unwrap();
    let reused = events.iter().filter(|event| event["event_type"] == "step.reused");
    let reused = reused.map(|event| json!([event["step"], event["payload"]["execution_id"], event["payload"]["seq"]]));
    let started = events.iter().find(|event| event["event_type"] == "workflow.started");
    let payload = &started.unwrap()["payload"];
    let first = match payload["tokens"].as_array() {
        Some(tokens) => tokens.iter().map(|token| token["step"].clone()).collect(),
        None => json!([payload["entry"]]),
    };
    (reused.collect(), first)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_of_a_rerun_is_what_the_rerun_does() {
    let fixture = ApiFixture::open().await;
    let id = run_to_end(&fixture, ROUTE).await;
    register(&fixture, &ROUTE.replace("limit > 100", "limit > 10")).await;
    let rerun = format!("/api/executions/{id}/rerun");
    for (request, later, inputs, changes) in [
        (json!({"from_step": "end"}), json!(["after"]), json!([]), None),
        (json!({}), json!(["middle", "end", "after"]), json!([]), None),
        (
            json!({"from_step": "middle", "payload": {"limit": 50}, "version": 2}),
            json!(["end", "after"]),
            json!(["limit"]),
            Some(vec!["end.next[after].when"]),
        ),
    ] {
        let before = ok(fixture.get("/api/executions").await);
        let preview = ok(fixture.post(&format!("{rerun}/preview"), &request).await);
        assert_eq!(
            ok(fixture.get("/api/executions").await),
            before,
            "a preview starts nothing"
        );
        let started = ok(fixture.post(&rerun, &request).await);
        let new_id = started["execution_id"].as_str().unwrap();
        let (reused, first) = reused_in_log(&fixture, new_id).await;
        let steps = preview["reused_steps"].as_array().unwrap().iter();
        let previewed: Value = steps
            .map(|entry| json!([entry["step"], entry["execution_id"], entry["seq"]]))
            .collect();
        assert_eq!(previewed, reused, "{request}");
        assert_eq!(preview["first_steps"], first, "{request}");
        assert_eq!(preview["later_steps"], later, "{request}");
        assert_eq!(preview["changed_inputs"], inputs, "{request}");
        let difference = &preview["difference"];
        assert_eq!(
            (!difference.is_null()).then(|| changed_paths(difference)),
            changes,
            "{request}"
        );
        fixture.wait_for_end(&format!("/api/executions/{new_id}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rerun_that_would_be_refused_has_a_preview_with_the_same_error() {
    let fixture = ApiFixture::open().await;
    let id = run_to_end(&fixture, ROUTE).await;
    let large = json!({"payload": {"limit": "x".repeat(300_000)}});
    for request in [
        json!({"from_step": "nowhere"}),
        json!({"from_step": "after"}),
        json!({"from_step": "middle", "from_iteration": 1}),
        json!({"version": 9}),
        large,
    ] {
        let path = format!("/api/executions/{id}/rerun");
        let refused = fixture.post(&path, &request).await;
        let previewed = fixture.post(&format!("{path}/preview"), &request).await;
        assert!(refused.status.is_client_error(), "{:?}", refused.body);
        assert_eq!((previewed.status, previewed.body), (refused.status, refused.body));
    }
}
