//! Event ingestion: events posted one at a time have the same effect as a batch, in every spelling, and each response
//! states what happened to its event.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::events::{claim_command, event_names, legacy_event};
use crate::fixture::{ApiFixture, HELLO};

/// A step with one task, and one with two.
const ONE: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one }
workflow:
  - step: work
    tool: { kind: noop }
";
const TWO: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two }
workflow:
  - step: work
    tool:
      - a: { kind: noop }
      - b: { kind: noop }
";

/// An event about a task.
fn task_event(claimed: &Value, name: &str, label: Option<&str>, payload: Option<&Value>) -> Value {
    let mut event = legacy_event(claimed, name, &json!({}));
    if let Some(label) = label {
        event["task_label"] = json!(label);
    }
    match payload {
        Some(payload) => event["context"] = payload.clone(),
        None => {
            event.as_object_mut().unwrap().remove("context");
        }
    }
    event
}

/// The events of a run, without IDs and times.
async fn recorded_events(fixture: &ApiFixture, execution: &str) -> Vec<Value> {
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?limit=1000"))
        .await;
    let events = page.body["events"].as_array().unwrap();
    let event_row = events.iter().map(|event| {
        json!([
            event["event_type"],
            event["task_label"],
            event["task_run_id"],
            event["attempt"],
            event["status"],
            event["payload"]["outcome"],
        ])
    });
    event_row.collect()
}

/// Runs a playbook with these events, posted one by one or as a batch, and returns what happened.
async fn run_with(
    fixture: &ApiFixture,
    playbook: &str,
    events: &dyn Fn(&Value) -> Vec<Value>,
    together: bool,
) -> Vec<Value> {
    let execution = fixture.execute(playbook).await;
    let claimed = claim_command(fixture, "old-worker").await;
    let events = events(&claimed);
    if together {
        let batch = json!({"execution_id": execution, "events": events});
        let response = fixture.post("/api/events/batch", &batch).await;
        assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
        for event in response.body["events"].as_array().unwrap() {
            assert!(has_event_outcome(event), "{event}");
        }
    } else {
        for event in events {
            let response = fixture.post("/api/events", &event).await;
            assert_eq!(response.status, StatusCode::OK, "{event}: {:?}", response.body);
            assert!(has_event_outcome(&response.body), "{event}: {:?}", response.body);
        }
    }
    recorded_events(fixture, &execution).await
}

fn has_event_outcome(response: &Value) -> bool {
    match response["status"].as_str().unwrap_or_default() {
        "recorded" | "duplicate" => response["seq"].is_u64(),
        "known" | "acknowledged" => true,
        _ => false,
    }
}

/// Builds what a client sends for one run, from its claim.
type EventBuilder<'a> = Box<dyn Fn(&Value) -> Vec<Value> + 'a>;
/// Name of an event, and the task it names.
type ExpectedEvent = (&'static str, Option<&'static str>);

const LEGACY: &[ExpectedEvent] = &[
    ("command.started", None),
    ("step.enter", None),
    ("tool.started", None),
    ("tool.processed", None),
    ("step.exit", None),
    ("command.completed", None),
];
const SHORT: &[ExpectedEvent] = &[("tool.processed", None), ("call.done", None)];
const NATIVE: &[ExpectedEvent] = &[
    ("step.started", None),
    ("task.started", None),
    ("task.done", None),
    ("step.done", None),
];
const NATIVE_TWO: &[ExpectedEvent] = &[
    ("step.started", None),
    ("task.started", Some("a")),
    ("task.done", Some("a")),
    ("task.started", Some("b")),
    ("task.done", Some("b")),
    ("step.done", None),
];
const LEGACY_TWO: &[ExpectedEvent] = &[
    ("tool.processed", Some("a")),
    ("sink.started", Some("b")),
    ("sink.completed", Some("b")),
    ("case.evaluated", None),
    ("step.exit", None),
];

#[tokio::test(flavor = "multi_thread")]
async fn single_events_give_the_same_log_as_a_batch() {
    let fixture = ApiFixture::open().await;
    let result = json!({"result": {"n": 1}});
    let outcome = json!({"outcome": {"status": "ok", "result": {"n": 1}}});
    let named = |names: &'static [(&'static str, Option<&'static str>)], payload: Option<&Value>| {
        let payload = payload.cloned();
        let events: EventBuilder<'_> = Box::new(move |claimed| {
            let event = |(name, label): &ExpectedEvent| task_event(claimed, name, *label, payload.as_ref());
            names.iter().map(event).collect()
        });
        events
    };
    let scripts: Vec<(&str, EventBuilder<'_>)> = vec![
        (ONE, named(LEGACY, Some(&result))),
        (ONE, named(LEGACY, None)),
        (ONE, named(SHORT, Some(&outcome))),
        (ONE, named(SHORT, None)),
        (ONE, named(NATIVE, Some(&outcome))),
        (ONE, named(NATIVE, None)),
        (TWO, named(NATIVE_TWO, Some(&result))),
        (TWO, named(NATIVE_TWO, None)),
        (TWO, named(LEGACY_TWO, Some(&result))),
        (TWO, named(LEGACY_TWO, None)),
    ];
    for (index, (playbook, events)) in scripts.iter().enumerate() {
        let apart = run_with(&fixture, playbook, events, false).await;
        let together = run_with(&fixture, playbook, events, true).await;
        assert_eq!(apart, together, "script {index}");
        let ends = |log: &[Value]| log.iter().filter(|event_row| event_row[0] == "task.done").count();
        assert_eq!(
            ends(&apart),
            if *playbook == ONE { 1 } else { 2 },
            "script {index}: {apart:?}"
        );
        assert_eq!(apart.last().unwrap()[0], "playbook.processed", "script {index}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_the_step_does_not_have_is_refused_by_name() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(TWO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let before = event_names(&fixture, &execution).await.len();
    let wrong = task_event(&claimed, "task.done", Some("c"), None);
    let refused = fixture.post("/api/events", &wrong).await;
    assert_eq!((refused.status.as_u16(), refused.error_code()), (422, "EVENT_INVALID"));
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("`c`") && detail.contains("`a`, `b`"), "{detail}");
    assert_eq!(event_names(&fixture, &execution).await.len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_an_unclaimed_command_gets_its_response_at_once() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let page = fixture.get(&format!("/api/executions/{execution}/events")).await;
    let events = page.body["events"].as_array().unwrap().clone();
    let issued = events.iter().find(|event| event["event_type"] == "command.issued");
    let command = format!("{execution}.{}", issued.unwrap()["seq"]);
    let event = json!({"execution_id": execution, "step": "work", "event_type": "step.started",
        "worker_id": "nobody", "meta": {"command_id": command}});
    let response = tokio::time::timeout(std::time::Duration::from_secs(5), fixture.post("/api/events", &event));
    let response = response.await.expect("the response arrives at once");
    assert_eq!(
        (response.status, response.error_code()),
        (StatusCode::CONFLICT, "FENCED")
    );
    let detail = response.body["detail"].as_str().unwrap();
    assert!(detail.contains("claim it"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_or_failed_by_its_status() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let attempt = |name: &str, attempt: u32, status: &str| {
        let mut event = task_event(&claimed, name, None, None);
        event["attempt"] = json!(attempt);
        event["status"] = json!(status);
        event
    };
    for event in [
        task_event(&claimed, "tool.started", None, None),
        attempt("retry.processed", 1, "FAILED"),
        attempt("retry.started", 2, "STARTED"),
        attempt("retry.processed", 2, "COMPLETED"),
        task_event(&claimed, "tool.processed", None, None),
        task_event(&claimed, "step.exit", None, None),
    ] {
        let response = fixture.post("/api/events", &event).await;
        assert_eq!(response.status, StatusCode::OK, "{event}: {:?}", response.body);
        assert_eq!(response.body["status"], "recorded", "{event}");
    }
    let attempts: Vec<Value> = recorded_events(&fixture, &execution).await;
    let attempts: Vec<String> = attempts
        .iter()
        .filter(|output| output[0].as_str().unwrap().starts_with("task.attempt."))
        .map(|output| format!("{} {}", output[0].as_str().unwrap(), output[3]))
        .collect();
    assert_eq!(
        attempts,
        ["task.attempt.failed 1", "task.attempt.started 2", "task.attempt.done 2"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_without_a_log_entry_are_acknowledged() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let before = event_names(&fixture, &execution).await.len();
    for name in ["command.heartbeat", "case.started", "case.matched", "loop.done"] {
        let response = fixture
            .post("/api/events", &task_event(&claimed, name, None, None))
            .await;
        assert_eq!(response.status, StatusCode::OK, "{name}: {:?}", response.body);
        assert_eq!(response.body["status"], "acknowledged", "{name}");
    }
    assert_eq!(event_names(&fixture, &execution).await.len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_a_batch_inherit_its_execution_and_a_status_may_be_left_out() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let mut started = task_event(&claimed, "task.started", None, None);
    started.as_object_mut().unwrap().remove("execution_id");
    started["event_id"] = json!("77");
    let batch = json!({"execution_id": execution, "events": [started]});
    let response = fixture.post("/api/events/batch", &batch).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let alone = fixture.post("/api/events", &started).await;
    assert_eq!((alone.status.as_u16(), alone.error_code()), (422, "BODY_INVALID"));
    started["execution_id"] = json!(execution);
    started["status"] = json!("STARTED");
    let second_response = fixture.post("/api/events", &started).await;
    assert_eq!(
        second_response.body["status"], "duplicate",
        "{:?}",
        second_response.body
    );
    assert_eq!(second_response.body["seq"], response.body["events"][0]["seq"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_errors_are_stored_in_the_shape_of_the_envelope() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let mut done = task_event(&claimed, "call.done", None, Some(&json!({"n": 1})));
    done["result_kind"] = json!("data");
    assert_eq!(fixture.post("/api/events", &done).await.status, StatusCode::OK);
    let run = fixture.get(&format!("/api/executions/{execution}")).await.body;
    let stored = json!({"status": "COMPLETED", "context": {"n": 1}});
    assert_eq!(run["result"], stored, "{run}");

    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let error = json!({"error": {"code": "BROKE", "message": "it broke"}});
    let failed = task_event(&claimed, "call.error", None, Some(&error));
    assert_eq!(fixture.post("/api/events", &failed).await.status, StatusCode::OK);
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?limit=1000"))
        .await;
    let events = page.body["events"].as_array().unwrap();
    let end = events.iter().find(|event| event["event_type"] == "playbook.finished");
    let result = &end.unwrap()["result"];
    assert_eq!(result["status"], "FAILED");
    assert_eq!(result["context"]["error"]["code"], "BROKE");
    let run = fixture.get(&format!("/api/executions/{execution}")).await;
    assert_eq!(run.body["result"], *result, "{}", run.body);
    assert_eq!(run.body["error"], result["context"]["error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_result_is_accepted_as_the_event_model_prints_it() {
    let playbook = ONE.replace("tool: { kind: noop }", "tool: [{ fetch_page: { kind: noop } }]");
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(&playbook).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let stored = json!({
        "event_id": "4711",
        "event_type": "result.stored",
        "event_alias": "ResultStored",
        "timestamp": "2026-02-05T23:11:30Z",
        "execution_id": execution,
        "source": "worker",
        "entity_type": "result",
        "entity_id": "task:fetch_page:attempt:3",
        "parent_id": "task:fetch_page:run:1",
        "status": "success",
        "meta": {"command_id": claimed["command"]["id"], "lease_epoch": claimed["lease_epoch"]},
        "payload": {
            "result_ref": {
                "kind": "result_ref",
                "store": "nats_object",
                "ref": "noetl://execution/..../page_001.json.gz",
                "meta": {"bytes": 52480, "sha256": "..."}
            },
            "extracted": {"has_more": true, "page": 1}
        }
    });
    let response = fixture.post("/api/events", &stored).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    assert!(response.body["seq"].is_u64(), "{:?}", response.body);
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?type=result.stored"))
        .await;
    let event = &page.body["events"][0];
    for (name, value) in [
        ("entity_id", json!("task:fetch_page:attempt:3")),
        ("timestamp", json!("2026-02-05T23:11:30.000000Z")),
        ("task_label", json!("fetch_page")),
    ] {
        assert_eq!(event[name], value, "{event}");
    }
    assert_eq!(event["payload"]["extracted"], stored["payload"]["extracted"]);
    let reference = &event["payload"]["result_ref"];
    assert_eq!(reference["ref"], stored["payload"]["result_ref"]["ref"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_ends_its_run_is_reported_as_completed() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(ONE).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let done = task_event(&claimed, "call.done", None, None);
    let batch = json!({"execution_id": execution, "events": [done]});
    let request = crate::fixture::http_client()
        .post(format!("{}/api/events/batch", fixture.url))
        .header("prefer", "respond-async")
        .header("idempotency-key", "batch-one")
        .json(&batch);
    let accepted = request.send().await.unwrap();
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let status = crate::events::wait_for_batch(&fixture).await;
    assert_eq!(status.body["status"], "completed", "{:?}", status.body);
    crate::events::wait_for_event(&fixture, &execution, "batch.completed").await;
    let log = event_names(&fixture, &execution).await;
    assert!(log.iter().any(|name| name == "playbook.finished"), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_end_is_a_duplicate_and_a_different_end_is_fenced() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let first = task_event(&claimed, "call.done", None, None);
    let first = fixture.post("/api/events", &first).await;
    assert_eq!(first.body["status"], "recorded");
    let later = task_event(&claimed, "step.exit", None, Some(&json!({"result": 2})));
    let later = fixture.post("/api/events", &later).await;
    assert_eq!(later.body["status"], "known", "{:?}", later.body);
    assert_eq!(later.body["seq"], first.body["seq"]);
    let second = task_event(&claimed, "step.done", None, Some(&json!({"result": 3})));
    let second = fixture.post("/api/events", &second).await;
    assert_eq!((second.status, second.error_code()), (StatusCode::CONFLICT, "FENCED"));

    let last = claim_command(&fixture, "old-worker").await;
    let cancel = fixture
        .post(&format!("/api/executions/{execution}/cancel"), &json!({}))
        .await;
    assert_eq!(cancel.status, StatusCode::OK, "{:?}", cancel.body);
    crate::events::wait_for_event(&fixture, &execution, "playbook.finished").await;
    for name in ["step.done", "step.exit"] {
        let late = fixture.post("/api/events", &task_event(&last, name, None, None)).await;
        assert_eq!(
            (late.status, late.error_code()),
            (StatusCode::CONFLICT, "FENCED"),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_collected_names_its_manifest_when_it_is_done() {
    let playbook = ONE.replace(
        "tool: { kind: noop }",
        "tool: [{ page: { kind: noop, spec: { result: { accumulate: {} } } } }]",
    );
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(&playbook).await;
    let claimed = claim_command(&fixture, "old-worker").await;
    let done = task_event(&claimed, "call.done", None, Some(&json!({"result": [1]})));
    let response = fixture.post("/api/events", &done).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    let one = async |name: &str| {
        let path = format!("/api/executions/{execution}/events?type={name}");
        fixture.get(&path).await.body["events"][0].clone()
    };
    let manifest = one("result.manifest.updated").await;
    let manifest = &manifest["payload"]["result_ref"]["ref"];
    assert!(manifest.is_string(), "{manifest}");
    assert_eq!(one("step.done").await["payload"]["manifests"], json!([manifest]));
}
