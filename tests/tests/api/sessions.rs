//! A worker's name belongs to the process that registered under it: other callers are rejected on every route.

use model::id::WorkerId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use wire::api::HeartbeatRequest;

use crate::fixture::{ApiFixture, ApiResponse, HELLO, http_client, read_response};

/// A server with tokens, and two worker tokens.
struct SessionFixture {
    fixture: ApiFixture,
    admin: String,
    own_token: String,
    other_token: String,
}

/// What a caller presents: its access token, and the secret of its session.
#[derive(Clone, Copy)]
struct CallerProof<'c> {
    token: &'c str,
    secret: Option<&'c str>,
}

impl SessionFixture {
    async fn start() -> Self {
        let fixture = ApiFixture::guarded().await;
        let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
        let admin = admin.reveal().to_owned();
        Self {
            own_token: fixture.create_token(&admin, "worker").await,
            other_token: fixture.create_token(&admin, "worker").await,
            fixture,
            admin,
        }
    }

    async fn post(&self, caller: CallerProof<'_>, path: &str, body: &Value) -> ApiResponse {
        let request = http_client().post(format!("{}{path}", self.fixture.url));
        let mut request = request.bearer_auth(caller.token).json(body);
        if let Some(secret) = caller.secret {
            request = request.header(wire::SESSION_HEADER, secret);
        }
        read_response(request.send().await.unwrap()).await
    }

    async fn register(&self, token: &str) -> ApiResponse {
        let caller = CallerProof { token, secret: None };
        let request = json!({"worker": "w", "pool": "default", "session_secret": true});
        self.post(caller, "/api/worker/pool/register", &request).await
    }

    /// Registers `w`, and returns the secret of its session.
    async fn register_session(&self) -> String {
        let registered = self.register(&self.own_token).await;
        assert_eq!(registered.status, StatusCode::OK, "{registered:?}");
        registered.body["session_secret"].as_str().unwrap().to_owned()
    }

    async fn execute(&self) -> String {
        let caller = CallerProof {
            token: &self.admin,
            secret: None,
        };
        let request = json!({"playbook": HELLO});
        let started = self.post(caller, "/api/execute", &request).await;
        started.body["execution_id"].as_str().unwrap().to_owned()
    }

    async fn claim(&self, caller: CallerProof<'_>) -> ApiResponse {
        let request = json!({"worker": "w", "max": 1, "wait_ms": 10_000});
        self.post(caller, "/api/commands/claim", &request).await
    }
}

/// Every route that is called under a worker's name, with a request body.
fn worker_calls(command: &str, lease_epoch: &Value) -> Vec<(String, Value)> {
    let one = json!({"worker": "w", "lease_epoch": lease_epoch});
    vec![
        (
            "/api/commands/claim".to_owned(),
            json!({"worker": "w", "max": 1, "wait_ms": 0}),
        ),
        (
            "/api/worker/pool/heartbeat".to_owned(),
            json!({"worker": "w", "holds": [{"command": command, "lease_epoch": lease_epoch}]}),
        ),
        (format!("/api/commands/{command}/heartbeat"), one.clone()),
        ("/api/worker/pool/listen".to_owned(), json!({"worker": "w"})),
        (format!("/api/commands/{command}/release"), one),
        ("/api/worker/pool/deregister".to_owned(), json!({"worker": "w"})),
    ]
}

fn is_mismatch(response: &ApiResponse) -> bool {
    response.status == StatusCode::FORBIDDEN && response.error_code() == "SESSION_MISMATCH"
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_under_a_name_needs_the_secret_of_its_session() {
    let guarded = SessionFixture::start().await;
    let secret = guarded.register_session().await;
    guarded.execute().await;
    let own = CallerProof {
        token: &guarded.own_token,
        secret: Some(&secret),
    };
    let claimed = guarded.claim(own).await.body["commands"][0].clone();
    let command = claimed["command"]["id"].as_str().unwrap();
    let last = if secret.ends_with('0') { '1' } else { '0' };
    let forged = format!("{}{last}", &secret[..secret.len() - 1]);
    let strangers = [
        (guarded.other_token.as_str(), None),
        (guarded.other_token.as_str(), Some(secret.as_str())),
        (guarded.own_token.as_str(), None),
        (guarded.own_token.as_str(), Some(forged.as_str())),
        (guarded.own_token.as_str(), Some("nonsense")),
    ];
    for (path, body) in worker_calls(command, &claimed["lease_epoch"]) {
        for (token, secret) in strangers {
            let response = guarded.post(CallerProof { token, secret }, &path, &body).await;
            assert!(is_mismatch(&response), "{path}: {response:?}");
        }
    }
    let registration = guarded.register(&guarded.other_token).await;
    assert_eq!(
        (registration.status, registration.error_code()),
        (StatusCode::FORBIDDEN, "WORKER_NAME_IN_USE"),
        "{registration:?}"
    );
    // The worker still has its claim, and each route works for the worker itself.
    for (path, body) in worker_calls(command, &claimed["lease_epoch"]) {
        if path.ends_with("/listen") {
            continue;
        }
        let response = guarded.post(own, &path, &body).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {response:?}");
    }
    let registered = guarded.register(&guarded.other_token).await;
    assert_eq!(
        registered.status,
        StatusCode::OK,
        "a name is free after its session ended: {registered:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_registers_again_at_once_and_gets_its_commands() {
    let guarded = SessionFixture::start().await;
    let first = guarded.register_session().await;
    let execution = guarded.execute().await;
    let killed = CallerProof {
        token: &guarded.own_token,
        secret: Some(&first),
    };
    let before = guarded.claim(killed).await.body["commands"][0].clone();
    let second = guarded.register_session().await;
    let restarted = CallerProof {
        secret: Some(&second),
        ..killed
    };
    let beat = json!({"worker": "w", "holds": []});
    let path = "/api/worker/pool/heartbeat";
    assert!(is_mismatch(&guarded.post(killed, path, &beat).await));
    let leave = "/api/worker/pool/deregister";
    let left = guarded.post(killed, leave, &json!({"worker": "w"})).await;
    assert!(is_mismatch(&left), "{left:?}");

    let after = guarded.claim(restarted).await.body["commands"][0].clone();
    assert_eq!(after["command"]["run"], before["command"]["run"]);
    let path = format!("/api/executions/{execution}/events?limit=1000");
    let log = guarded.fixture.send(Method::GET, &path, Some(&guarded.admin), None);
    let log = read_response(log.await).await.body;
    let events = log["events"].as_array().unwrap();
    let expired = events.iter().filter(|event| event["event_type"] == "command.expired");
    assert_eq!(expired.count(), 1, "the loss counts as a crash: {events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_secret_is_identified_by_its_access_token() {
    let guarded = SessionFixture::start().await;
    let client = |token| CallerProof { token, secret: None };
    let beat = json!({"worker": "w", "holds": []});
    let path = "/api/worker/pool/heartbeat";
    for _ in 0..2 {
        let response = guarded.post(client(&guarded.own_token), path, &beat).await;
        assert_eq!(response.status, StatusCode::OK, "{response:?}");
    }
    let refused = guarded.post(client(&guarded.other_token), path, &beat).await;
    assert!(is_mismatch(&refused), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_worker_inside_the_server_is_refused_over_http() {
    let fixture = ApiFixture::open().await;
    let request = HeartbeatRequest::new(WorkerId("inside/1".into()), Vec::new());
    fixture.server.transport().heartbeat(&request).await.unwrap();
    let leave = json!({"worker": "inside/1"});
    let refused = fixture.post("/api/worker/pool/deregister", &leave).await;
    assert!(is_mismatch(&refused), "{refused:?}");
    let register = json!({"worker": "inside/1", "session_secret": true});
    let refused = fixture.post("/api/worker/pool/register", &register).await;
    assert_eq!(refused.error_code(), "WORKER_NAME_IN_USE", "{refused:?}");
    fixture.server.transport().heartbeat(&request).await.unwrap();
}
