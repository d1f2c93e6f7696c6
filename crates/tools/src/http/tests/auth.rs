//! Tests of every authentication type against a server that checks the credentials.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};

use super::*;

/// State of the token server.
#[derive(Default)]
struct TokenIssuer {
    /// Number of the valid token.
    valid_token: AtomicU32,
    issued: AtomicU32,
    request_count: AtomicU32,
    forms: Mutex<Vec<String>>,
    /// Lifetime of a token in seconds; 0 omits `expires_in`.
    lifetime_s: AtomicU32,
    /// Number of token requests that will still fail.
    failures: AtomicU32,
}

async fn issue(State(issuer): State<Arc<TokenIssuer>>, headers: HeaderMap, body: String) -> Response {
    let by_header = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().unwrap().to_owned());
    issuer
        .forms
        .lock()
        .unwrap()
        .push(format!("{body} {}", by_header.clone().unwrap_or_default()));
    if body.contains("client_id=strict") {
        return (StatusCode::UNAUTHORIZED, "{\"error\": \"invalid_client\"}").into_response();
    }
    if body.contains("client_secret=wrong") {
        let body = "{\"error\": \"invalid_scope\", \"error_description\": \"not yours\"}";
        return (StatusCode::BAD_REQUEST, body).into_response();
    }
    if issuer.failures.load(Ordering::SeqCst) > 0 {
        issuer.failures.fetch_sub(1, Ordering::SeqCst);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    // Other calls arrive while the first one is still waiting.
    tokio::task::yield_now().await;
    let number = issuer.issued.fetch_add(1, Ordering::SeqCst) + 1;
    issuer.valid_token.store(number, Ordering::SeqCst);
    let mut response = json!({"access_token": format!("token-{number}"), "token_type": "Bearer"});
    let life = issuer.lifetime_s.load(Ordering::SeqCst);
    if life > 0 {
        response["expires_in"] = json!(life);
    }
    if body.contains("rotate=yes") && number < 3 {
        response["refresh_token"] = json!(format!("refresh-{number}"));
    }
    response.to_string().into_response()
}

async fn api(State(issuer): State<Arc<TokenIssuer>>, headers: HeaderMap) -> Response {
    issuer.request_count.fetch_add(1, Ordering::SeqCst);
    let good = format!("Bearer token-{}", issuer.valid_token.load(Ordering::SeqCst));
    match headers.get(header::AUTHORIZATION) {
        Some(value) if *value == *good => good.into_response(),
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn reject_token(State(issuer): State<Arc<TokenIssuer>>) -> StatusCode {
    issuer.request_count.fetch_add(1, Ordering::SeqCst);
    StatusCode::UNAUTHORIZED
}

/// A server that requires digest authentication and returns the header that it received; its challenge is the example
/// of RFC 7616.
async fn digest(request: Request) -> Response {
    if let Some(value) = request.headers().get(header::AUTHORIZATION) {
        return format!("{} {}", request.method(), value.to_str().unwrap()).into_response();
    }
    let challenge = "Digest realm=\"r\", nonce=\"n1\", qop=\"auth\", algorithm=SHA-256";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

async fn start_issuer() -> (String, Arc<TokenIssuer>) {
    let issuer = Arc::new(TokenIssuer::default());
    let app = Router::new()
        .route("/token", post(issue))
        .route("/api", any(api))
        .route("/never", any(reject_token))
        .route("/digest", any(digest))
        .with_state(issuer.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (base, issuer)
}

fn oauth_call(base: &str, auth: Value) -> Call {
    let mut whole = json!({
        "type": "oauth2", "token_url": format!("{base}/token"), "client_id": "me", "client_secret": "s3&cret",
    });
    whole.as_object_mut().unwrap().extend(auth.as_object().unwrap().clone());
    build_call("http", json!({"url": format!("{base}/api"), "auth": whole}), json!({}))
}

#[tokio::test]
async fn a_token_is_requested_once_and_cached() {
    let (base, issuer) = start_issuer().await;
    issuer.lifetime_s.store(3600, Ordering::SeqCst);
    let tool = Arc::new(http_tool());
    let calls = (0..20).map(|_| {
        let (tool, call) = (
            tool.clone(),
            oauth_call(&base, json!({"scope": ["a", "b"], "audience": "x"})),
        );
        tokio::spawn(async move { run_tool(&*tool, call).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(expect_result(call.await.unwrap())["data"], "Bearer token-1");
    }
    let forms = issuer.forms.lock().unwrap().clone();
    assert_eq!(forms.len(), 1, "{forms:?}");
    for part in [
        "grant_type=client_credentials",
        "scope=a+b",
        "audience=x",
        "client_id=me",
        "client_secret=s3%26cret",
    ] {
        assert!(forms[0].contains(part), "{part} in {forms:?}");
    }
    assert_eq!(issuer.request_count.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn another_credential_has_a_token_of_its_own() {
    let (base, issuer) = start_issuer().await;
    let tool = http_tool();
    expect_result(run_tool(&tool, oauth_call(&base, json!({}))).await);
    expect_result(run_tool(&tool, oauth_call(&base, json!({"scope": "other"}))).await);
    assert_eq!(issuer.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_token_is_replaced_before_it_expires() {
    let (base, issuer) = start_issuer().await;
    issuer.lifetime_s.store(1, Ordering::SeqCst);
    let tool = http_tool();
    let mut tokens = Vec::new();
    // A token with a lifetime of one second is used for 0.8 seconds.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(900) {
        tokens.push(expect_result(run_tool(&tool, oauth_call(&base, json!({}))).await)["data"].clone());
    }
    assert_eq!(tokens.first().unwrap(), "Bearer token-1");
    assert_eq!(tokens.last().unwrap(), "Bearer token-2");
    assert_eq!(issuer.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once() {
    let (base, issuer) = start_issuer().await;
    let tool = http_tool();
    expect_result(run_tool(&tool, oauth_call(&base, json!({}))).await);
    issuer.valid_token.store(99, Ordering::SeqCst);
    assert_eq!(
        expect_result(run_tool(&tool, oauth_call(&base, json!({}))).await)["data"],
        "Bearer token-2"
    );
    assert_eq!(issuer.request_count.load(Ordering::SeqCst), 3);
    // A server that rejects every token gets two requests, not endless ones.
    let mut never = oauth_call(&base, json!({}));
    never.fields.insert("url".to_owned(), json!(format!("{base}/never")));
    assert_eq!(expect_error(&run_tool(&tool, never).await).code, "HTTP_401");
    assert_eq!(issuer.request_count.load(Ordering::SeqCst), 5);
    // A header that the playbook sets takes precedence.
    let mut own = oauth_call(&base, json!({}));
    own.fields.insert("url".to_owned(), json!(format!("{base}/digest")));
    own.fields
        .insert("headers".to_owned(), json!({"Authorization": "mine"}));
    assert_eq!(expect_result(run_tool(&tool, own).await)["data"], "GET mine");
}

#[tokio::test]
async fn a_token_can_be_requested_from_a_host_without_free_permits() {
    let (base, issuer) = start_issuer().await;
    let limits = HttpLimits {
        per_host_max: 1,
        ..HttpLimits::default()
    };
    let clients = HttpClients::new(limits, &NetworkConfig::default());
    let tool = HttpTool::new(Arc::new(clients), std::env::temp_dir());
    expect_result(run_tool(&tool, oauth_call(&base, json!({}))).await);
    issuer.valid_token.store(99, Ordering::SeqCst);
    let refused = run_tool(&tool, oauth_call(&base, json!({})));
    let outcome = tokio::time::timeout(Duration::from_secs(20), refused).await;
    assert_eq!(expect_result(outcome.unwrap())["data"], "Bearer token-2");
}

#[tokio::test]
async fn a_refresh_token_survives_a_failed_request_and_a_response_without_a_new_one() {
    let (base, issuer) = start_issuer().await;
    let tool = http_tool();
    let call = || {
        let auth = json!({"refresh_token": "refresh-0", "params": {"rotate": "yes"}});
        oauth_call(&base, auth)
    };
    expect_result(run_tool(&tool, call()).await);
    issuer.failures.store(1, Ordering::SeqCst);
    issuer.valid_token.store(99, Ordering::SeqCst);
    assert_eq!(expect_error(&run_tool(&tool, call()).await).code, "OAUTH_TOKEN");
    for _ in 0..3 {
        expect_result(run_tool(&tool, call()).await);
        issuer.valid_token.store(99, Ordering::SeqCst);
    }
    let forms = issuer.forms.lock().unwrap().clone();
    let sent = forms.iter().map(|form| {
        let fields = form.split('&');
        fields
            .filter_map(|field| field.strip_prefix("refresh_token="))
            .collect()
    });
    let sent: Vec<String> = sent.collect();
    let expected = ["refresh-0", "refresh-1", "refresh-1", "refresh-2", "refresh-2"];
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn client_credentials_can_be_sent_in_a_header() {
    let (base, issuer) = start_issuer().await;
    expect_result(run_tool(&http_tool(), oauth_call(&base, json!({"client_auth": "basic"}))).await);
    let form = issuer.forms.lock().unwrap()[0].clone();
    assert!(
        form.ends_with(" Basic bWU6czMlMjZjcmV0") && !form.contains("client_secret"),
        "{form}"
    );
    // Without `client_auth`, a server that rejects credentials in the body gets them in the header.
    let outcome = run_tool(&http_tool(), oauth_call(&base, json!({"client_id": "strict"}))).await;
    assert_eq!(expect_result(outcome)["data"], "Bearer token-2");
    assert_eq!(issuer.forms.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_refused_grant_is_an_error_without_the_secret() {
    let (base, _) = start_issuer().await;
    let outcome = run_tool(&http_tool(), oauth_call(&base, json!({"client_secret": "wrong"}))).await;
    let failed = expect_error(&outcome);
    assert_eq!((failed.code.as_str(), failed.kind), ("OAUTH_TOKEN", ErrorKind::Auth));
    assert!(
        failed.message.contains("invalid_scope: not yours"),
        "{}",
        failed.message
    );
    let away = json!({"token_url": "http://127.0.0.1:1/token"});
    let outcome = run_tool(&http_tool(), oauth_call(&base, away)).await;
    assert_eq!(expect_error(&outcome).code, "HTTP_CONNECT");
    let text = format!("{outcome:?} {:?}", oauth_call(&base, json!({})));
    assert!(!text.contains("s3&cret"), "{text}");
}

#[tokio::test]
async fn the_address_rules_apply_to_token_endpoints() {
    let (base, issuer) = start_issuer().await;
    let closed = public_only_tool();
    let mut call = oauth_call(&base, json!({}));
    call.fields.insert("url".to_owned(), json!("http://93.184.216.34/"));
    assert_eq!(
        expect_error(&run_tool(&closed, call).await).code,
        "HTTP_ADDRESS_BLOCKED"
    );
    assert_eq!(issuer.forms.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_digest_challenge_gets_a_response() {
    let (base, _) = start_issuer().await;
    let fields = json!({
        "url": format!("{base}/digest?q=1"), "method": "PUT", "body": "x",
        "auth": {"type": "digest", "username": "u", "password": "p"},
    });
    let result = expect_result(run_tool(&http_tool(), build_call("http", fields, json!({}))).await);
    let echoed = result["data"].as_str().unwrap();
    assert!(
        echoed.starts_with("PUT Digest username=\"u\", realm=\"r\", nonce=\"n1\", uri=\"/digest?q=1\""),
        "{echoed}"
    );
    assert!(echoed.contains("qop=auth, nc=00000001"), "{echoed}");
}

#[tokio::test]
async fn keys_and_headers_are_sent_where_the_credential_says() {
    let server = TestHttpServer::start().await;
    for (auth, expected) in [
        (json!({"type": "bearer", "token": "t"}), "authorization: Bearer t"),
        (
            json!({"type": "basic", "username": "u", "password": "p"}),
            "authorization: Basic dTpw",
        ),
        (json!({"type": "api_key", "value": "k"}), "x-api-key: k"),
        (
            json!({"type": "api_key", "value": "k", "header": "X-Mine", "prefix": "Key"}),
            "x-mine: Key k",
        ),
        (
            json!({"type": "api_key", "value": "k v", "in": "query", "name": "key"}),
            "GET /json?key=k+v",
        ),
        (json!({"type": "headers", "headers": {"X-A": "1", "X-B": 2}}), "x-b: 2"),
    ] {
        expect_result(run_tool(&http_tool(), server.call("/json", json!({"auth": auth}))).await);
        assert!(
            server.last_request().contains(expected),
            "{expected} in {}",
            server.last_request()
        );
    }
    for auth in [
        json!({"type": "magic"}),
        json!({"type": "api_key"}),
        json!({"type": "oauth2", "token_url": "x"}),
    ] {
        let outcome = run_tool(&http_tool(), server.call("/json", json!({"auth": auth}))).await;
        assert_eq!(expect_error(&outcome).code, "AUTH_INVALID", "{auth}");
    }
    let name = run_tool(&http_tool(), server.call("/json", json!({"auth": "stored"}))).await;
    assert_eq!(expect_error(&name).code, "AUTH_UNRESOLVED");
}
