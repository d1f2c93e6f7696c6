//! What operators and admins read: credentials with their uses, workers, queues with reasons, the system and the audit
//! log.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, ApiResponse, read_response};

/// A text that no response may contain.
const CANARY: &str = "canary-5f1d2c";

const USES_CREDENTIAL: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: load, path: demo/load }
workflow:
  - step: start
    tool: { kind: http, url: https://example.com, auth: orders_api }
";

/// A step in the default pool and a step in another one, which run at the same time.
const TWO_POOLS: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pools, path: demo/pools }
workflow:
  - step: start
    next:
      spec: { mode: inclusive }
      arcs: [{ step: plain }, { step: special }]
  - step: plain
    tool: { kind: shell, command: echo plain }
  - step: special
    tool: { kind: shell, command: echo special, spec: { pool: gpu } }
";

async fn call(fixture: &ApiFixture, token: &str, method: Method, path: &str, body: Option<&Value>) -> ApiResponse {
    read_response(fixture.send(method, path, Some(token), body).await).await
}

async fn get(fixture: &ApiFixture, token: &str, path: &str) -> Value {
    let response = call(fixture, token, Method::GET, path, None).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {:?}", response.body);
    response.body
}

async fn guarded() -> (ApiFixture, String) {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    (fixture, admin.reveal().to_owned())
}

/// Registers a worker over HTTP, as `noetl worker` does.
async fn register_worker(fixture: &ApiFixture, description: &Value) {
    let mut request = json!({"worker": "remote", "slots": 1, "version": "1.2.3"});
    request
        .as_object_mut()
        .unwrap()
        .extend(description.as_object().unwrap().clone());
    let registered = fixture.post("/api/worker/pool/register", &request).await;
    assert_eq!(registered.status, StatusCode::OK, "{:?}", registered.body);
}

/// The cause and the sentence for a step of a run.
async fn waiting_reason(fixture: &ApiFixture, execution: &str, step: &str) -> (String, String) {
    let path = format!("/api/executions/{execution}/waiting");
    loop {
        let list = fixture.get(&path).await.body;
        let commands = list["commands"].as_array().unwrap();
        if let Some(command) = commands.iter().find(|command| command["step"] == step) {
            let text = |field: &str| command["reason"][field].as_str().unwrap().to_owned();
            return (text("cause"), text("detail"));
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_lists_its_playbooks_and_never_its_value() {
    let (fixture, admin) = guarded().await;
    let request = json!({"name": "orders_api", "type": "bearer", "data": {"token": CANARY, "host": CANARY}});
    let set = call(&fixture, &admin, Method::POST, "/api/credentials", Some(&request)).await;
    assert_eq!(set.status, StatusCode::OK, "{:?}", set.body);
    let unused = json!({"name": "unused", "type": "basic", "data": {"password": CANARY}});
    call(&fixture, &admin, Method::POST, "/api/credentials", Some(&unused)).await;
    let playbook = json!({"content": USES_CREDENTIAL});
    let registered = call(&fixture, &admin, Method::POST, "/api/catalog/register", Some(&playbook)).await;
    assert_eq!(registered.status, StatusCode::OK, "{:?}", registered.body);

    let list = get(&fixture, &admin, "/api/credentials").await;
    assert_eq!(list["is_used_by_complete"], true);
    let uses: Vec<(&Value, &Value)> = list["credentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|credential| (&credential["name"], &credential["used_by"]))
        .collect();
    let load = json!([{"path": "demo/load", "version": 1}]);
    assert_eq!(uses, [(&json!("orders_api"), &load), (&json!("unused"), &json!([]))]);

    let one = get(&fixture, &admin, "/api/credentials/orders_api").await;
    let audit = get(&fixture, &admin, "/api/audit?order=newest").await;
    for response in [&set.body, &list, &one, &audit] {
        assert!(!response.to_string().contains(CANARY), "{response}");
    }
    // The check finds the value where it is.
    assert!(request.to_string().contains(CANARY));
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_types_tell_secret_fields_from_public_ones() {
    let (fixture, admin) = guarded().await;
    let types = get(&fixture, &admin, "/api/credential-types").await;
    let postgres = types["types"]
        .as_array()
        .unwrap()
        .iter()
        .find(|credential| credential["name"] == "postgres");
    let fields = postgres.unwrap()["fields"].as_array().unwrap();
    let is_secret = |name: &str| &fields.iter().find(|field| field["name"] == name).unwrap()["is_secret"];
    assert_eq!(
        (is_secret("db_password"), is_secret("db_host")),
        (&json!(true), &json!(false))
    );
    let viewer = fixture.create_token(&admin, "viewer").await;
    let refused = call(&fixture, &viewer, Method::GET, "/api/credential-types", None).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_follows_what_workers_serve() {
    let fixture = ApiFixture::open().await;
    let run = fixture.execute(TWO_POOLS).await;
    let (cause, detail) = waiting_reason(&fixture, &run, "special").await;
    assert_eq!(
        (cause.as_str(), detail.as_str()),
        ("no_worker_in_pool", "no worker serves the pool `gpu`")
    );

    register_worker(&fixture, &json!({"pool": "gpu", "kinds": ["http"]})).await;
    let (cause, detail) = waiting_reason(&fixture, &run, "special").await;
    assert_eq!(cause, "no_worker_for_kinds");
    assert!(detail.contains("serves `shell`"), "{detail}");
    assert_eq!(waiting_reason(&fixture, &run, "plain").await.0, "no_worker_in_pool");

    // A heartbeat with another description replaces the stored one.
    register_worker(&fixture, &json!({"pool": "gpu", "kinds": ["shell"]})).await;
    assert_eq!(waiting_reason(&fixture, &run, "special").await.0, "starting");

    let pause = fixture.post(&format!("/api/executions/{run}/pause"), &json!({})).await;
    assert_eq!(pause.status, StatusCode::OK, "{:?}", pause.body);
    assert_eq!(waiting_reason(&fixture, &run, "special").await.0, "run_paused");
    let missing = fixture.get("/api/executions/1/waiting").await;
    assert_eq!(
        (missing.status, missing.error_code()),
        (StatusCode::NOT_FOUND, "EXECUTION_NOT_FOUND")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_worker_leaves_the_rest_of_the_queue_waiting_for_a_slot() {
    let fixture = ApiFixture::open().await;
    let first = fixture.execute(TWO_POOLS).await;
    waiting_reason(&fixture, &first, "special").await;
    register_worker(&fixture, &json!({"pool": "gpu", "kinds": ["shell"]})).await;
    let claim = json!({"worker": "remote", "pool": "gpu", "kinds": ["shell"], "max": 1, "wait_ms": 20_000});
    let claimed = fixture.post("/api/commands/claim", &claim).await;
    assert_eq!(
        claimed.body["commands"].as_array().unwrap().len(),
        1,
        "{:?}",
        claimed.body
    );

    let second = fixture.execute(TWO_POOLS).await;
    let (cause, detail) = waiting_reason(&fixture, &second, "special").await;
    assert_eq!(cause, "no_free_slot");
    assert!(detail.contains("all 1 slots of the 1 worker"), "{detail}");

    let overview = fixture.get("/api/workers").await.body;
    assert_eq!(
        overview["pools"],
        json!([{"pool": "gpu", "workers": 1, "slots": 1, "leases": 1}])
    );
    let worker = &overview["workers"][0];
    assert_eq!(
        (&worker["worker"], &worker["version"]),
        (&json!("remote"), &json!("1.2.3"))
    );
    assert_eq!(
        (&worker["kinds"], &worker["is_alive"]),
        (&json!(["shell"]), &json!(true))
    );
    let lease = &overview["leases"][0];
    assert_eq!(
        (&lease["execution_id"], &lease["step"]),
        (&json!(first), &json!("special"))
    );
    assert_eq!(
        (&lease["is_expired"], &lease["worker"]),
        (&json!(false), &json!("remote"))
    );
    let servers = overview["servers"].as_array().unwrap();
    assert_eq!(
        servers.iter().filter(|server| server["is_this"] == true).count(),
        1,
        "{servers:?}"
    );

    let queue = fixture.get("/api/queue").await.body;
    assert_eq!(queue["is_complete"], true);
    let queues: Vec<(&Value, &Value, &Value)> = queue["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["pool"], &entry["commands"], &entry["reason"]["cause"]))
        .collect();
    let (default, gpu) = (json!("default"), json!("gpu"));
    let expected = [
        (&default, &json!(2), &json!("no_worker_in_pool")),
        (&gpu, &json!(1), &json!("no_free_slot")),
    ];
    assert_eq!(queues, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_shows_locations_only_to_admins() {
    let (fixture, admin) = guarded().await;
    let viewer = fixture.create_token(&admin, "viewer").await;
    let for_admin = get(&fixture, &admin, "/api/system").await;
    let for_viewer = get(&fixture, &viewer, "/api/system").await;
    assert_eq!(for_admin["store"]["location"], "the test directory");
    assert_eq!(for_viewer["store"]["location"], Value::Null);
    assert_eq!(for_viewer["nats_address"], Value::Null);
    assert_eq!(
        (&for_viewer["publishes_events"], &for_viewer["requires_tokens"]),
        (&json!(true), &json!(true))
    );
    assert!(for_viewer["store"]["bytes"].as_u64().unwrap() > 0);
    let limits = for_viewer["limits"].as_array().unwrap();
    assert!(
        limits.iter().any(|limit| limit["code"] == "LIMIT_STEP_RUNS"),
        "{limits:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_is_filtered_from_its_end() {
    let (fixture, admin) = guarded().await;
    let viewer = fixture.create_token(&admin, "viewer").await;
    fixture.create_token(&admin, "operator").await;
    call(&fixture, &viewer, Method::GET, "/api/audit", None).await;
    let actions = |page: &Value| -> Vec<String> {
        let entries = page["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["action"].as_str().unwrap().to_owned())
            .collect()
    };
    let newest = get(&fixture, &admin, "/api/audit?order=newest").await;
    assert_eq!(actions(&newest), ["api.call", "token.create", "token.create"]);
    assert_eq!(newest["next_before"], Value::Null);
    let created = get(&fixture, &admin, "/api/audit?order=newest&action=token.&limit=1").await;
    assert_eq!(actions(&created), ["token.create"]);
    let next = created["next_before"].as_u64().unwrap();
    let older = get(
        &fixture,
        &admin,
        &format!("/api/audit?order=newest&action=token.&before={next}"),
    )
    .await;
    assert_eq!(actions(&older), ["token.create"]);
    let denied = get(&fixture, &admin, "/api/audit?order=newest&outcome=denied").await;
    assert_eq!(actions(&denied), ["api.call"]);
    let path = "/api/audit?actor=admin";
    let refused = call(&fixture, &admin, Method::GET, path, None).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "PARAMETER_INVALID")
    );
}
