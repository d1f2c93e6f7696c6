//! Ingestion according to the specification of the event envelope: old and new clients, each event recorded once.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, ApiResponse, HELLO, http_client};

/// Claims one command like an old client.
pub(crate) async fn claim_command(fixture: &ApiFixture, worker: &str) -> Value {
    let request = json!({"worker": worker, "max": 1, "wait_ms": 5000});
    let claimed = fixture.post("/api/commands/claim", &request).await;
    assert_eq!(claimed.status, StatusCode::OK, "{:?}", claimed.body);
    claimed.body["commands"][0].clone()
}

fn parse_id(id: &Value) -> i64 {
    id.as_str().unwrap().parse().unwrap()
}

/// An event in the format of an old worker: IDs as integers, the claim in `meta`.
pub(crate) fn legacy_event(claimed: &Value, name: &str, payload: &Value) -> Value {
    let command = &claimed["command"];
    let id = command["id"].as_str().unwrap();
    let execution: i64 = id.split('.').next().unwrap().parse().unwrap();
    json!({
        "execution_id": execution,
        "node_name": command["run"]["step"],
        "name": name,
        "context": payload,
        "meta": {"command_id": id, "lease_epoch": claimed["lease_epoch"]},
        "worker_id": "old-worker",
    })
}

pub(crate) async fn event_names(fixture: &ApiFixture, execution: &str) -> Vec<String> {
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?limit=1000"))
        .await;
    let events = page.body["events"].as_array().unwrap();
    let names = events
        .iter()
        .map(|event| event["event_type"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_integer_ids_runs_hello_world_to_its_terminal_event() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    for (step, greeting) in [("start", "hello"), ("end", "world")] {
        let claimed = claim_command(&fixture, "old-worker").await;
        assert_eq!(claimed["command"]["run"]["step"], step);
        for (name, payload) in [
            ("command.started", json!({})),
            ("step.enter", json!({})),
            ("call.done", json!({"result": {"greeting": greeting}})),
            ("step.exit", json!({"result": {"greeting": greeting}})),
            ("command.completed", json!({})),
        ] {
            let response = fixture
                .post("/api/events", &legacy_event(&claimed, name, &payload))
                .await;
            assert_eq!(response.status, StatusCode::OK, "{name}: {:?}", response.body);
        }
    }
    let run = fixture.get(&format!("/api/executions/{execution}")).await.body;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(run["result"], json!({"greeting": "world"}));
    let log = event_names(&fixture, &execution).await;
    assert_eq!(log.last().map(String::as_str), Some("playbook.processed"));
    let boundaries = log.iter().filter(|name| *name == "step.done").count();
    assert_eq!(boundaries, 2, "only the first end counts: {log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_again_is_one_event_and_another_content_a_conflict() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let mut done = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    done["event_id"] = json!(4_000_000_001_i64);
    let first = fixture.post("/api/events", &done).await;
    assert_eq!(first.status, StatusCode::OK, "{:?}", first.body);
    let length = event_names(&fixture, &execution).await.len();
    let second_response = fixture.post("/api/events", &done).await;
    assert_eq!(second_response.status, StatusCode::OK);
    assert_eq!(second_response.body["seq"], first.body["seq"]);
    assert_eq!(second_response.body["duplicate"], true);
    assert_eq!(event_names(&fixture, &execution).await.len(), length);
    done["context"] = json!({"result": 2});
    let other = fixture.post("/api/events", &done).await;
    assert_eq!(
        (other.status, other.error_code()),
        (StatusCode::CONFLICT, "EVENT_ID_CONFLICT")
    );
    // An event without an ID is identified by its claim and content.
    let unnamed = legacy_event(
        &claim_command(&fixture, "old-worker").await,
        "call.done",
        &json!({"result": 3}),
    );
    let first = fixture.post("/api/events", &unnamed).await.body;
    let second_response = fixture.post("/api/events", &unnamed).await.body;
    assert_eq!(
        (&first["seq"], &second_response["duplicate"]),
        (&second_response["seq"], &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_claim_is_fenced_and_leaves_no_row() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let id = claimed["command"]["id"].as_str().unwrap();
    let release = json!({"worker": "old-worker", "lease_epoch": claimed["lease_epoch"]});
    let released = fixture.post(&format!("/api/commands/{id}/release"), &release).await;
    assert_eq!(released.status, StatusCode::OK);
    let second = claim_command(&fixture, "new-worker").await;
    assert!(second["lease_epoch"].as_u64() > claimed["lease_epoch"].as_u64());
    let before = event_names(&fixture, &execution).await.len();
    let late = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    let late = fixture.post("/api/events", &late).await;
    assert_eq!((late.status, late.error_code()), (StatusCode::CONFLICT, "FENCED"));
    assert_eq!(event_names(&fixture, &execution).await.len(), before);
    let heartbeat = fixture.post(&format!("/api/commands/{id}/heartbeat"), &release).await;
    assert_eq!(
        (heartbeat.status, heartbeat.error_code()),
        (StatusCode::CONFLICT, "FENCED")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_event_is_refused_with_its_field_and_position() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let good = legacy_event(&claimed, "step.enter", &json!({}));
    let with = |name: &str, value: Value| {
        let mut event = good.clone();
        event[name] = value;
        event
    };
    let before = event_names(&fixture, &execution).await.len();
    let cases: [(Value, u16, &str); 8] = [
        (with("execution_id", json!([1])), 422, "BODY_INVALID"),
        (with("execution_id", json!("abc")), 422, "BODY_INVALID"),
        (with("event_id", json!({"a": 1})), 422, "BODY_INVALID"),
        (with("name", json!("step.dances")), 422, "EVENT_INVALID"),
        (with("result_kind", json!("ref")), 422, "EVENT_INVALID"),
        (with("status", json!("SOMEHOW")), 422, "BODY_INVALID"),
        (with("name", json!("next.evaluated")), 403, "EVENT_NOT_YOURS"),
        (with("execution_id", json!(12)), 404, "EXECUTION_NOT_FOUND"),
    ];
    for (body, status, code) in cases {
        let response = fixture.post("/api/events", &body).await;
        assert_eq!(
            (response.status.as_u16(), response.error_code()),
            (status, code),
            "{body}"
        );
    }
    let text = http_client().post(format!("{}/api/events", fixture.url)).body("{}");
    assert_eq!(text.send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(
        event_names(&fixture, &execution).await.len(),
        before,
        "nothing of it was recorded"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_accepted_whole_or_not_at_all() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let enter = legacy_event(&claimed, "step.enter", &json!({}));
    let mut wrong = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    wrong["name"] = json!("no.such.thing");
    let before = event_names(&fixture, &execution).await.len();
    let batch = json!({"execution_id": parse_id(&json!(execution)), "events": [enter, wrong]});
    let refused = fixture.post("/api/events/batch", &batch).await;
    assert_eq!((refused.status.as_u16(), refused.error_code()), (422, "EVENT_INVALID"));
    assert_eq!(refused.body["errors"][0]["index"], 1);
    assert_eq!(event_names(&fixture, &execution).await.len(), before);
    let done = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    let batch = json!({"execution_id": execution, "events": [enter, done]});
    let response = fixture.post("/api/events/batch", &batch).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    assert_eq!(response.body["events"].as_array().unwrap().len(), 2);
    assert!(response.body["request_id"].is_string());
    let many = vec![enter; 257];
    let batch = json!({"execution_id": execution, "events": many});
    let refused = fixture.post("/api/events/batch", &batch).await;
    assert_eq!(
        (refused.status.as_u16(), refused.error_code()),
        (422, "BATCH_TOO_LARGE")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_batch_is_decided_later_and_its_status_can_be_read() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let done = legacy_event(&claimed, "call.done", &json!({"result": {"greeting": "later"}}));
    let batch = json!({"execution_id": execution, "events": [done]});
    let send = async || {
        let request = http_client()
            .post(format!("{}/api/events/batch", fixture.url))
            .header("prefer", "respond-async")
            .header("idempotency-key", "batch-one")
            .json(&batch);
        crate::fixture::read_response(request.send().await.unwrap()).await
    };
    let accepted = send().await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{:?}", accepted.body);
    assert_eq!(accepted.body["request_id"], "batch-one");
    send().await;
    // The command of the next step exists once the batch is decided.
    let next = claim_command(&fixture, "old-worker").await;
    assert_eq!(next["command"]["run"]["step"], "end");
    let status = wait_for_batch(&fixture).await;
    assert_eq!(status.body["status"], "completed", "{:?}", status.body);
    let log = event_names(&fixture, &execution).await;
    for name in ["batch.accepted", "batch.processing", "batch.completed"] {
        assert!(log.iter().any(|event| event == name), "{name} in {log:?}");
    }
    assert_eq!(log.iter().filter(|name| *name == "step.done").count(), 1, "{log:?}");
    let unknown = fixture.get("/api/events/batch/no-such/status").await;
    assert_eq!(unknown.error_code(), "BATCH_NOT_FOUND");
}

pub(crate) async fn wait_for_batch(fixture: &ApiFixture) -> ApiResponse {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let status = fixture.get("/api/events/batch/batch-one/status").await;
        let is_over = status.body["status"] == "completed" || status.body["status"] == "failed";
        if is_over || tokio::time::Instant::now() > deadline {
            return status;
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until the log has an event of this type.
pub(crate) async fn wait_for_event(fixture: &ApiFixture, execution: &str, name: &str) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while !event_names(fixture, execution)
        .await
        .iter()
        .any(|event_name| event_name == name)
    {
        assert!(tokio::time::Instant::now() < deadline, "the log has no {name}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_an_old_worker_reports_fails_the_run_with_its_error() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let mut failed = legacy_event(
        &claimed,
        "step.exit",
        &json!({"error": {"message": "it broke", "code": "BROKE"}}),
    );
    failed["status"] = json!("FAILED");
    assert_eq!(fixture.post("/api/events", &failed).await.status, StatusCode::OK);
    let run = fixture.get(&format!("/api/executions/{execution}")).await.body;
    assert_eq!(run["status"], "FAILED");
    assert!(run["error"].to_string().contains("it broke"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_with_one_idempotency_key_start_one_run() {
    let fixture = ApiFixture::open().await;
    let request = json!({"playbook": HELLO, "dedup": "nightly"});
    let first = fixture.post("/api/execute", &request).await.body;
    let second = fixture.post("/api/execute", &request).await.body;
    assert_eq!(first["execution_id"], second["execution_id"]);
    let other = json!({"playbook": HELLO, "dedup": "weekly"});
    let other = fixture.post("/api/execute", &other).await.body;
    assert_ne!(first["execution_id"], other["execution_id"]);
    let list = fixture.get("/api/executions").await.body;
    assert_eq!(list["executions"].as_array().unwrap().len(), 2);
}
