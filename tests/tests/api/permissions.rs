//! Every route requires the permission that the API document states.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use server::Server;

use crate::fixture::{ApiFixture, http_client, read_response};

/// The roles, and which of them may use a route that requires the named role.
const ROLES: [&str; 5] = ["worker", "viewer", "operator", "author", "admin"];

fn role_allows(needed: &str, role: &str) -> bool {
    let rank = |role: &str| ROLES.iter().position(|other| *other == role);
    match needed {
        "worker" => role == "worker" || role == "admin",
        "server" => false,
        needed => role != "worker" && rank(role) >= rank(needed),
    }
}

struct DocumentedRoute {
    method: Method,
    path: String,
    /// `None`: the route requires no permission.
    role: Option<String>,
}

/// Every route of the document, with values for its parameters.
fn routes() -> Vec<DocumentedRoute> {
    let document: Value = serde_json::from_str(Server::api_document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation.get("x-role").and_then(Value::as_str);
            let needs_token = operation.get("security").is_some();
            assert_eq!(role.is_some(), needs_token, "{method} {path}");
            let path = path
                .replace("{id}", "1")
                .replace("{step}", "a")
                .replace("{name}", "a")
                .replace("{path}", "a")
                .replace("{hash}", "a")
                .replace("{code}", "a")
                .replace("{catalog_id}", "a")
                .replace("{request_id}", "a");
            assert!(!path.contains('{'), "{path} has a parameter this test does not fill in");
            routes.push(DocumentedRoute {
                method: method.to_uppercase().parse().unwrap(),
                path,
                role: role.map(str::to_owned),
            });
        }
    }
    routes
}

/// A refusal arrives within this time, also on a busy machine.
const REFUSAL_MAX: Duration = Duration::from_secs(60);

/// A long poll that has waited this long was accepted.
const ACCEPTED_AFTER: Duration = Duration::from_secs(5);

/// Whether the permission layer accepted a request; a long poll that still waits after `timeout` was accepted.
async fn check_access(
    fixture: &ApiFixture,
    route: &DocumentedRoute,
    token: Option<&str>,
    timeout: Duration,
) -> Result<(), StatusCode> {
    let body = json!({});
    let sends = route.method != Method::GET;
    let sending = fixture.send(route.method.clone(), &route.path, token, sends.then_some(&body));
    match tokio::time::timeout(timeout, sending).await {
        Ok(response) => match response.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(status),
            _ => Ok(()),
        },
        Err(_) => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_requires_its_documented_role() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture
        .server
        .create_first_admin()
        .await
        .unwrap()
        .expect("a new store has no admin");
    let admin = admin.reveal();
    let mut tokens = Vec::new();
    for role in ROLES {
        tokens.push((role, fixture.create_token(admin, role).await));
    }
    let routes = routes();
    assert!(routes.len() > 40, "{} routes", routes.len());
    let open: Vec<&str> = routes
        .iter()
        .filter(|route| route.role.is_none())
        .map(|route| route.path.as_str())
        .collect();
    assert_eq!(
        open,
        [
            "/api/session",
            "/api/session",
            "/api/session",
            "/api/session/oidc/callback",
            "/api/session/oidc/failures/a",
            "/api/session/oidc/start",
            "/healthz",
            "/readyz"
        ]
    );
    for route in &routes {
        let name = format!("{} {}", route.method, route.path);
        let Some(needed) = &route.role else {
            assert_eq!(
                check_access(&fixture, route, None, ACCEPTED_AFTER).await,
                Ok(()),
                "{name}"
            );
            continue;
        };
        let refused = check_access(&fixture, route, None, REFUSAL_MAX).await;
        assert_eq!(refused, Err(StatusCode::UNAUTHORIZED), "{name} without a token");
        for (role, token) in &tokens {
            let (expected, timeout) = if role_allows(needed, role) {
                (Ok(()), ACCEPTED_AFTER)
            } else {
                (Err(StatusCode::FORBIDDEN), REFUSAL_MAX)
            };
            let access = check_access(&fixture, route, Some(token), timeout).await;
            assert_eq!(access, expected, "{name} as {role}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_invented_token_works_nowhere() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let made = json!({"name": "short", "role": "viewer"});
    let made = fixture
        .send(Method::POST, "/api/tokens", Some(admin.reveal()), Some(&made))
        .await;
    let made = read_response(made).await.body;
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let status = async |token: &str| {
        let response = fixture.send(Method::GET, "/api/executions", Some(token), None).await;
        response.status()
    };
    assert_eq!(status(token).await, StatusCode::OK);
    let path = format!("/api/tokens/{id}");
    let revoked = fixture.send(Method::DELETE, &path, Some(admin.reveal()), None).await;
    assert_eq!(revoked.status(), StatusCode::OK);
    assert_eq!(status(token).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("noetl_pat_invented").await, StatusCode::UNAUTHORIZED);
    let audit = fixture
        .send(Method::GET, "/api/audit", Some(admin.reveal()), None)
        .await;
    let audit = read_response(audit).await.body;
    let entries = audit["entries"].to_string();
    assert!(entries.contains("token.create") && entries.contains("token.revoke") && entries.contains("denied"));
    assert!(!entries.contains(token), "the audit log contains no token");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_tokens_is_rate_limited() {
    let fixture = ApiFixture::guarded().await;
    let mut last = StatusCode::OK;
    for n in 0..40 {
        let guess = format!("noetl_pat_{n}");
        let response = fixture.send(Method::GET, "/api/executions", Some(&guess), None).await;
        last = response.status();
        if last == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_do_not_block_valid_ones_of_the_same_address() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let worker = fixture.create_token(admin.reveal(), "worker").await;
    for n in 0..40 {
        let guess = format!("noetl_pat_{n}");
        fixture.send(Method::GET, "/api/executions", Some(&guess), None).await;
    }
    let beat = json!({"worker": "healthy", "holds": []});
    let path = "/api/worker/pool/heartbeat";
    let response = fixture.send(Method::POST, path, Some(&worker), Some(&beat));
    assert_eq!(response.await.status(), StatusCode::OK);
    let late = fixture.create_token(admin.reveal(), "viewer").await;
    let response = fixture.send(Method::GET, "/api/executions", Some(&late), None);
    assert_eq!(response.await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_start_anything() {
    let fixture = ApiFixture::open().await;
    let send = async |origin: &str| {
        let request = http_client().post(format!("{}/api/execute", fixture.url));
        let request = request.header("origin", origin).json(&json!({"path": "none"}));
        read_response(request.send().await.unwrap()).await
    };
    let foreign = send("https://evil.example").await;
    assert_eq!(
        (foreign.status, foreign.error_code()),
        (StatusCode::FORBIDDEN, "ORIGIN_FOREIGN")
    );
    // Another port or scheme of the same host is another origin.
    let port = fixture.url.rsplit(':').next().unwrap();
    for near in [
        "http://127.0.0.1:3000".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
        "null".to_owned(),
    ] {
        assert_eq!(send(&near).await.error_code(), "ORIGIN_FOREIGN", "{near}");
    }
    let own = send(&fixture.url).await;
    assert_eq!(
        (own.status, own.error_code()),
        (StatusCode::NOT_FOUND, "PLAYBOOK_NOT_FOUND")
    );
    let rebound = http_client()
        .get(format!("{}/api/executions", fixture.url))
        .header("host", "evil.example");
    let rebound = read_response(rebound.send().await.unwrap()).await;
    assert_eq!((rebound.status.as_u16(), rebound.error_code()), (421, "HOST_UNKNOWN"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_changes_a_run_needs_a_json_content_type() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(crate::fixture::HELLO).await;
    for action in ["pause", "resume", "cancel", "retry", "signal/go"] {
        let url = format!("{}/api/executions/{execution}/{action}", fixture.url);
        let plain = http_client().post(&url).body("");
        let form = http_client().post(&url).header("content-type", "text/plain").body("{}");
        for request in [plain, form] {
            let refused = read_response(request.send().await.unwrap()).await;
            assert_eq!(
                (refused.status.as_u16(), refused.error_code()),
                (415, "NOT_JSON"),
                "{action}"
            );
        }
    }
    let run = fixture.get(&format!("/api/executions/{execution}/status")).await;
    assert_eq!(run.body["status"], "RUNNING", "{:?}", run.body);
    let url = format!("{}/api/executions/{execution}/cancel", fixture.url);
    let empty = http_client().post(url).header("content-type", "application/json");
    assert_eq!(empty.send().await.unwrap().status(), StatusCode::OK);
}
