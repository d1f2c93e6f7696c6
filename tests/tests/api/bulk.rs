//! Labels of runs, and actions on many runs.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, ApiResponse};

/// A task that waits for a worker, which this server does not have.
const LABELLED: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: labelled, path: demo/labelled, labels: { team: data, tier: 2 } }
workflow:
  - step: start
    tool: { kind: noop }
";

async fn execute(fixture: &ApiFixture, labels: Value) -> String {
    let body = json!({"playbook": LABELLED, "labels": labels});
    let started = fixture.post("/api/execute", &body).await;
    assert_eq!(started.status, StatusCode::OK, "{:?}", started.body);
    started.body["execution_id"].as_str().unwrap().to_owned()
}

fn ids(response: &ApiResponse) -> Vec<&str> {
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let runs = response.body["executions"].as_array().unwrap().iter();
    runs.map(|run| run["execution_id"].as_str().unwrap()).collect()
}

fn outcomes(response: &ApiResponse) -> Vec<(&str, &str)> {
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let results = response.body["results"].as_array().unwrap().iter();
    let results = results.map(|result| {
        let code = result["code"].as_str().unwrap_or_default();
        (result["outcome"].as_str().unwrap(), code)
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_the_labels_of_its_playbook_and_of_its_request() {
    let fixture = ApiFixture::open().await;
    let plain = execute(&fixture, json!({})).await;
    let owned = execute(&fixture, json!({"team": "web", "owner": "a,b"})).await;
    let detail = fixture.get(&format!("/api/executions/{owned}")).await;
    let expected = json!({"owner": "a,b", "team": "web", "tier": "2"});
    assert_eq!(detail.body["execution"]["labels"], expected);
    for (filter, expected) in [
        ("tier:2", &[owned.as_str(), &plain][..]),
        ("tier:2,team:data", &[plain.as_str()]),
        ("owner:a%5C,b", &[owned.as_str()]),
        ("team:other", &[]),
    ] {
        let list = fixture
            .get(&format!("/api/executions?label={filter}&status=RUNNING"))
            .await;
        assert_eq!(ids(&list), expected, "{filter}");
        let facets = fixture.get(&format!("/api/executions/facets?label={filter}")).await;
        assert_eq!(facets.body["total"], expected.len(), "{filter}");
    }
    let facets = fixture.get("/api/executions/facets").await;
    assert_eq!(
        facets.body["labels"][0],
        json!({"key": "tier", "value": "2", "count": 2})
    );
    let refused = fixture
        .post("/api/execute", &json!({"playbook": LABELLED, "labels": {"a b": "c"}}))
        .await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "LABEL_INVALID")
    );
    let invalid = fixture.get("/api/executions?label=team").await;
    assert_eq!(invalid.error_code(), "PARAMETER_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_previewed_action_applies_to_exactly_the_previewed_runs() {
    let fixture = ApiFixture::open().await;
    let first = execute(&fixture, json!({"batch": "x"})).await;
    let second = execute(&fixture, json!({"batch": "x"})).await;
    let other = execute(&fixture, json!({})).await;
    let path = "/api/executions/bulk/preview?label=batch:x";
    let preview = fixture.post(path, &json!({"action": "cancel"})).await;
    assert_eq!(preview.status, StatusCode::OK, "{:?}", preview.body);
    assert_eq!(preview.body["execution_ids"], json!([second, first]));
    assert_eq!(preview.body["statuses"], json!([{"value": "RUNNING", "count": 2}]));
    let later = execute(&fixture, json!({"batch": "x"})).await;

    let request = json!({"action": "cancel", "key": "k1", "execution_ids": preview.body["execution_ids"]});
    for _ in 0..2 {
        let applied = fixture.post("/api/executions/bulk", &request).await;
        assert_eq!(outcomes(&applied), [("done", ""), ("done", "")]);
    }
    for id in [&first, &second] {
        fixture.wait_for_end(&format!("/api/executions/{id}")).await;
    }
    let running = fixture.get("/api/executions?status=RUNNING").await;
    assert_eq!(ids(&running), [later.as_str(), &other]);
    let preview = fixture
        .post(path, &json!({"action": "cancel", "execution_ids": [first, other]}))
        .await;
    assert_eq!(preview.body["total"], 1);
    assert_eq!(preview.body["refusals"][0]["code"], "EXECUTION_ENDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_reruns_and_retries_once() {
    let fixture = ApiFixture::open().await;
    let cancelled = execute(&fixture, json!({"batch": "x"})).await;
    let cancel = json!({"action": "cancel", "key": "c", "execution_ids": [cancelled]});
    fixture.post("/api/executions/bulk", &cancel).await;
    fixture.wait_for_end(&format!("/api/executions/{cancelled}")).await;

    let rerun = json!({"action": "rerun", "key": "r", "execution_ids": [cancelled, "77"]});
    let applied = fixture.post("/api/executions/bulk", &rerun).await;
    assert_eq!(outcomes(&applied), [("done", ""), ("refused", "EXECUTION_NOT_FOUND")]);
    let again = fixture.post("/api/executions/bulk", &rerun).await;
    let new = &applied.body["results"][0]["new_execution_id"];
    assert_eq!(&again.body["results"][0]["new_execution_id"], new);
    let labelled = fixture.get("/api/executions?label=batch:x").await;
    assert_eq!(ids(&labelled), [new.as_str().unwrap(), &cancelled]);

    let retry = json!({"action": "retry", "key": "t", "execution_ids": [cancelled]});
    for _ in 0..2 {
        let applied = fixture.post("/api/executions/bulk", &retry).await;
        assert_eq!(outcomes(&applied), [("done", "")]);
    }
    let status = fixture.get(&format!("/api/executions/{cancelled}/status")).await;
    assert_eq!(status.body["generation"], 2);
    let other_key = json!({"action": "retry", "key": "u", "execution_ids": [cancelled]});
    let refused = fixture.post("/api/executions/bulk", &other_key).await;
    assert_eq!(outcomes(&refused), [("refused", "NOT_RETRYABLE")]);
    for invalid in [
        json!({"action": "retry", "key": "", "execution_ids": [cancelled]}),
        json!({"action": "retry", "key": "k", "execution_ids": []}),
    ] {
        let refused = fixture.post("/api/executions/bulk", &invalid).await;
        assert_eq!(refused.error_code(), "BODY_INVALID");
    }
}
