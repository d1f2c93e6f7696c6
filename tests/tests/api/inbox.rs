//! What waits for a person or another system, in all runs.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::events::{claim_command, legacy_event};
use crate::fixture::ApiFixture;

/// A step that waits; workers report what it waits for.
fn waiting_playbook(name: &str) -> String {
    format!(
        "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: {name}, path: demo/{name} }}
workflow:
  - step: ask
    tool:
      - decision: {{ kind: wait, signal: go }}
"
    )
}

/// Starts a run whose task reports that it waits. Returns its ID.
async fn start_waiting(fixture: &ApiFixture, name: &str, payload: &Value) -> String {
    let execution = fixture.execute(&waiting_playbook(name)).await;
    let claimed = claim_command(fixture, "old-worker").await;
    let mut started = legacy_event(&claimed, "task.started", payload);
    started["task_label"] = json!("decision");
    let reported = fixture.post("/api/events", &started).await;
    assert_eq!(reported.status, StatusCode::OK, "{:?}", reported.body);
    execution
}

async fn waits(fixture: &ApiFixture, query: &str) -> Vec<Value> {
    let page = fixture.get(&format!("/api/inbox?{query}")).await;
    assert_eq!(page.status, StatusCode::OK, "{:?}", page.body);
    page.body["waits"].as_array().unwrap().clone()
}

async fn waiting_runs(fixture: &ApiFixture, query: &str) -> Vec<String> {
    let waits = waits(fixture, query).await;
    let runs = waits.iter();
    runs.map(|wait| wait["execution_id"].as_str().unwrap().to_owned())
        .collect()
}

fn approval_payload() -> Value {
    let form = json!({"properties": {"amount": {"type": "integer"}}, "required": ["amount"]});
    json!({
        "awaits": {"wait": {"signal": "go", "until": "2100-01-01T00:00:00Z", "times_out": true}},
        "approval": {"title": "Raise the limit?", "description": "at once", "form": form},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_task_is_listed_until_its_answer() {
    let fixture = ApiFixture::open().await;
    assert!(waits(&fixture, "").await.is_empty());
    let approval = start_waiting(&fixture, "approval", &approval_payload()).await;
    let plain = json!({"awaits": {"wait": {"signal": "go"}}});
    let signal = start_waiting(&fixture, "signal", &plain).await;

    let listed = waits(&fixture, "order=oldest").await;
    let wait = &listed[0];
    assert_eq!(wait["execution_id"], approval.as_str());
    assert_eq!((&wait["path"], &wait["version"]), (&json!("demo/approval"), &json!(1)));
    assert_eq!((&wait["step"], &wait["task"]), (&json!("ask"), &json!("decision")));
    assert_eq!((&wait["kind"], &wait["signal"]), (&json!("approval"), &json!("go")));
    assert_eq!(wait["title"], "Raise the limit?");
    assert_eq!(wait["deadline"], "2100-01-01T00:00:00.000000Z");
    assert_eq!(wait["is_next"], true);
    assert_eq!(wait["form"]["properties"]["amount"]["type"], "integer");
    assert_eq!(wait["href"], format!("/api/executions/{approval}/signal/go"));
    let command = format!("noetl signal {approval} go --set approved=true");
    assert_eq!(wait["choices"][0]["command"], command);
    assert_eq!(
        (&listed[1]["kind"], &listed[1]["form"]),
        (&json!("signal"), &Value::Null)
    );
    let run = fixture.get(&format!("/api/executions/{approval}/status")).await.body;
    assert_eq!(run["waits_for"], "go");
    let runs = fixture.get("/api/executions?path=demo%2Fsignal").await.body;
    assert_eq!(runs["executions"][0]["waits_for"], "go");

    let sent = fixture
        .post(wait["href"].as_str().unwrap(), &json!({"approved": true}))
        .await;
    assert_eq!(sent.status, StatusCode::OK, "{:?}", sent.body);
    assert_eq!(sent.body["waits_for"], Value::Null);
    assert_eq!(waiting_runs(&fixture, "").await, [signal.as_str()]);
    let cancel = format!("/api/executions/{signal}/cancel");
    assert_eq!(fixture.post(&cancel, &json!({})).await.status, StatusCode::OK);
    assert!(waits(&fixture, "").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_is_filtered_counted_and_paged() {
    let fixture = ApiFixture::open().await;
    let mut runs = Vec::new();
    for name in ["one", "two", "one"] {
        let signal = if runs.is_empty() { "first" } else { "later" };
        let payload = json!({"awaits": {"wait": {"signal": signal}}});
        runs.push(start_waiting(&fixture, name, &payload).await);
    }
    let newest_first = [runs[2].as_str(), &runs[1], &runs[0]];
    for (query, expected) in [
        (String::new(), &newest_first[..]),
        ("path=demo%2Ftwo".to_owned(), &newest_first[1..2]),
        ("signal=later".to_owned(), &newest_first[..2]),
        (format!("execution_id={}", runs[0]), &newest_first[2..]),
        ("signal=never".to_owned(), &[]),
    ] {
        assert_eq!(waiting_runs(&fixture, &query).await, expected, "{query}");
        let count = fixture.get(&format!("/api/inbox/count?{query}")).await.body;
        assert_eq!(count, json!({"count": expected.len(), "is_complete": true}), "{query}");
    }
    let first = fixture.get("/api/inbox?limit=2&order=oldest").await.body;
    assert_eq!(first["waits"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let last_page = fixture
        .get(&format!("/api/inbox?limit=2&order=oldest&cursor={cursor}"))
        .await
        .body;
    assert_eq!(last_page["waits"][0]["execution_id"], runs[2].as_str());
    assert_eq!(last_page["next_cursor"], Value::Null);
    for path in [
        "/api/inbox?cursor=x",
        "/api/inbox?order=size",
        "/api/inbox/count?limit=5",
        "/api/inbox?color=red",
    ] {
        let refused = fixture.get(path).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert_eq!(refused.error_code(), "PARAMETER_INVALID", "{path}");
    }
}
