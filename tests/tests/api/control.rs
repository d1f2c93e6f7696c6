//! Control requests over HTTP: finalize, retry in a new generation, and rerun.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, HELLO};

async fn event_kinds(fixture: &ApiFixture, execution: &str) -> Vec<String> {
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?limit=1000"))
        .await;
    let events = page.body["events"].as_array().unwrap();
    let kind = |event: &Value| event["event_type"].as_str().unwrap().to_owned();
    events.iter().map(kind).collect()
}

/// Waits until a run has ended; returns its state.
async fn wait_for_end(fixture: &ApiFixture, execution: &str) -> Value {
    fixture.wait_for_end(&format!("/api/executions/{execution}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalized_run_has_the_given_status_and_may_be_retried() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let path = format!("/api/executions/{execution}/finalize");
    let wrong = fixture.post(&path, &json!({"status": "perhaps"})).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let end = json!({"status": "error", "reason": "the shop is closed"});
    let response = fixture.post(&path, &end).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let run = wait_for_end(&fixture, &execution).await;
    assert_eq!(run["status"], "FAILED", "{run}");
    assert!(run.to_string().contains("the shop is closed"), "{run}");
    let second_response = fixture.post(&path, &end).await;
    assert_eq!(
        second_response.status,
        StatusCode::CONFLICT,
        "{:?}",
        second_response.body
    );
    let retry = format!("/api/executions/{execution}/retry");
    let retried = fixture.post(&retry, &json!({})).await;
    assert_eq!(retried.body["status"], "RUNNING", "{:?}", retried.body);
    assert_eq!(retried.body["generation"], 2, "{:?}", retried.body);
    let kinds = event_kinds(&fixture, &execution).await;
    assert!(kinds.contains(&"execution.retried".to_owned()), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rerun_is_a_run_of_its_own_and_one_of_nothing_is_refused() {
    let fixture = ApiFixture::open().await;
    let first = fixture.execute(HELLO).await;
    let path = format!("/api/executions/{first}/rerun");
    let early = fixture.post(&path, &json!({})).await;
    assert_eq!(early.error_code(), "EXECUTION_RUNNING", "{:?}", early.body);
    let end = format!("/api/executions/{first}/cancel");
    assert_eq!(fixture.post(&end, &json!({})).await.status, StatusCode::OK);
    assert_eq!(wait_for_end(&fixture, &first).await["status"], "CANCELLED");
    let nowhere = fixture.post(&path, &json!({"from_step": "nowhere"})).await;
    assert!(nowhere.status.is_client_error(), "{:?}", nowhere.body);
    assert!(!nowhere.error_code().is_empty(), "{:?}", nowhere.body);
    let response = fixture.post(&path, &json!({})).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let second = response.body["execution_id"].as_str().unwrap();
    assert_ne!(second, first);
    let unknown = fixture.post("/api/executions/7/rerun", &json!({})).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}
