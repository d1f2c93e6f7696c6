//! A claim belongs to its worker: other callers cannot report under it, guess its epoch, or release it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::events::{event_names, legacy_event};
use crate::fixture::{ApiFixture, ApiResponse, HELLO, read_response};

/// A server with access tokens, a run, and two workers with tokens of their own.
struct ClaimFixture {
    fixture: ApiFixture,
    execution: String,
    admin: String,
    holder_token: String,
    other_token: String,
}

impl ClaimFixture {
    async fn start() -> Self {
        let fixture = ApiFixture::guarded().await;
        let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
        let admin = admin.reveal().to_owned();
        let holder = fixture.create_token(&admin, "worker").await;
        let other = fixture.create_token(&admin, "worker").await;
        let request = json!({"playbook": HELLO});
        let started = fixture.send(Method::POST, "/api/execute", Some(&admin), Some(&request));
        let started = read_response(started.await).await.body;
        Self {
            execution: started["execution_id"].as_str().unwrap().to_owned(),
            fixture,
            admin,
            holder_token: holder,
            other_token: other,
        }
    }

    async fn post(&self, token: &str, path: &str, body: &Value) -> ApiResponse {
        read_response(self.fixture.send(Method::POST, path, Some(token), Some(body)).await).await
    }

    async fn claim(&self) -> Value {
        let request = json!({"worker": "old-worker", "max": 1, "wait_ms": 5000});
        let claimed = self.post(&self.holder_token, "/api/commands/claim", &request).await;
        claimed.body["commands"][0].clone()
    }

    async fn log_length(&self) -> usize {
        let path = format!("/api/executions/{}/events?limit=1000", self.execution);
        let page = self.fixture.send(Method::GET, &path, Some(&self.admin), None);
        let page = read_response(page.await).await;
        page.body["events"].as_array().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_cannot_complete_a_command_by_guessing() {
    let guarded = ClaimFixture::start().await;
    let claimed = guarded.claim().await;
    let before = guarded.log_length().await;
    let mine = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    let epoch = claimed["lease_epoch"].as_u64().unwrap();
    let with = |epoch: Value, worker: &str| {
        let mut forged = mine.clone();
        forged["meta"]["lease_epoch"] = epoch;
        forged["worker_id"] = json!(worker);
        forged
    };
    let mut forged = vec![with(json!(epoch), "other-worker")];
    forged.extend((0..4).map(|guess| with(json!(guess), "old-worker")));
    forged.push(with(json!(epoch + 1), "old-worker"));
    forged.push(with(Value::Null, "old-worker"));
    for forged in &forged {
        let refused = guarded.post(&guarded.other_token, "/api/events", forged).await;
        assert_eq!(
            (refused.status, refused.error_code()),
            (StatusCode::CONFLICT, "FENCED"),
            "{forged}: {:?}",
            refused.body
        );
    }
    let id = claimed["command"]["id"].as_str().unwrap();
    let report = json!({"execution_id": guarded.execution, "worker_id": "other-worker", "command_id": id,
        "lease_epoch": epoch, "events": [], "end": "released", "pool": "default"});
    let refused = guarded.post(&guarded.other_token, "/api/events/batch", &report).await;
    assert_eq!(refused.error_code(), "FENCED", "{:?}", refused.body);
    let release = json!({"worker": "old-worker", "lease_epoch": 1});
    let path = format!("/api/commands/{id}/release");
    let refused = guarded.post(&guarded.other_token, &path, &release).await;
    assert_eq!(refused.error_code(), "FENCED", "{:?}", refused.body);
    assert_eq!(guarded.log_length().await, before, "the log contains nothing of it");

    let response = guarded.post(&guarded.holder_token, "/api/events", &mine).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    assert_eq!(response.body["status"], "recorded");
    let path = format!("/api/executions/{}/events?limit=1000", guarded.execution);
    let page = guarded.fixture.send(Method::GET, &path, Some(&guarded.admin), None);
    let text = page.await.text().await.unwrap();
    assert!(text.contains("call.done") || text.contains("step.done"), "{text}");
    assert!(!text.contains(&epoch.to_string()), "the log contains no sealed epoch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_epochs_reports_with_the_access_token_of_its_claim() {
    let guarded = ClaimFixture::start().await;
    let claimed = guarded.claim().await;
    let mut done = legacy_event(&claimed, "call.done", &json!({"result": 1}));
    done.as_object_mut().unwrap().remove("meta");
    let refused = guarded.post(&guarded.other_token, "/api/events", &done).await;
    assert_eq!(refused.error_code(), "FENCED", "{:?}", refused.body);
    let response = guarded.post(&guarded.holder_token, "/api/events", &done).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    assert!(response.body["seq"].is_u64(), "{:?}", response.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_of_a_run_names_its_trace() {
    let fixture = ApiFixture::open().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traces = async |execution: &str| {
        let path = format!("/api/executions/{execution}/events?limit=1000");
        let page = fixture.get(&path).await.body;
        let events = page["events"].as_array().unwrap().clone();
        let mut traces: Vec<String> = events
            .iter()
            .map(|event| event["trace_id"].as_str().expect("a trace").to_owned())
            .collect();
        traces.dedup();
        traces
    };
    let own = fixture.execute(HELLO).await;
    let made = traces(&own).await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0].len(), 32, "{made:?}");

    let body = json!({"playbook": HELLO, "trace_id": "order-77"});
    let named = fixture.post("/api/execute", &body).await.body;
    let named = named["execution_id"].as_str().unwrap();
    assert_eq!(traces(named).await, ["order-77"]);

    let request = crate::fixture::http_client()
        .post(format!("{}/api/execute", fixture.url))
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))
        .json(&json!({"playbook": HELLO}));
    let parented = read_response(request.send().await.unwrap()).await.body;
    let parented = parented["execution_id"].as_str().unwrap();
    assert_eq!(traces(parented).await, [trace]);
    assert!(event_names(&fixture, parented).await.len() > 3);

    let body = json!({"playbook": HELLO, "trace_id": "a b"});
    let refused = fixture.post("/api/execute", &body).await;
    assert_eq!(
        (refused.status.as_u16(), refused.error_code()),
        (422, "TRACE_ID_INVALID")
    );
}
