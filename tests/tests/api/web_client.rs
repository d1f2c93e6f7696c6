//! The web client: its files, and sign-in with a cookie.

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, SET_COOKIE};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, http_client, plain_client, read_response};

/// Requests a page or a file as a browser does, without compression.
async fn browse(fixture: &ApiFixture, path: &str) -> Response {
    request_file(fixture, path, "identity").await
}

async fn request_file(fixture: &ApiFixture, path: &str, encoding: &str) -> Response {
    let request = plain_client().get(format!("{}{path}", fixture.url));
    let request = request
        .header(ACCEPT, "text/html,*/*;q=0.8")
        .header(ACCEPT_ENCODING, encoding);
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let value = response.headers().get(name).map(|value| value.to_str().unwrap());
    value.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_client_find_their_files_at_every_depth() {
    let fixture = ApiFixture::guarded().await;
    for (path, root) in [
        ("/", "./"),
        ("/runs", "./"),
        ("/runs/7", "../"),
        ("/playbooks/demo%2Fa", "../"),
    ] {
        let page = browse(&fixture, path).await;
        assert_eq!(page.status(), StatusCode::OK, "{path} needs no token");
        let policy = header(&page, "content-security-policy").to_owned();
        for directive in ["script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(directive), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header(&page, "cache-control"), "no-cache");
        let text = page.text().await.unwrap();
        assert!(text.contains(&format!("<base href=\"{root}\">")), "{path}: {text}");
        assert!(!text.contains("://"), "the page loads nothing from elsewhere: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_with_a_hash_are_cached_for_ever_and_compressed_on_request() {
    let fixture = ApiFixture::guarded().await;
    let page = browse(&fixture, "/").await.text().await.unwrap();
    let script = page
        .split('"')
        .find(|text| text.contains("assets/index-") && text.contains(".js"))
        .expect("the page has a script");
    let script = format!("/{}", script.trim_start_matches("./"));
    let plain = browse(&fixture, &script).await;
    assert_eq!(header(&plain, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&plain, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&plain, "content-encoding"), "");
    let plain = plain.bytes().await.unwrap();
    let compressed = request_file(&fixture, &script, "gzip").await;
    assert_eq!(header(&compressed, "content-encoding"), "gzip");
    let compressed = compressed.bytes().await.unwrap();
    assert!(compressed.len() < plain.len() / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_the_api_are_never_pages() {
    let fixture = ApiFixture::guarded().await;
    for (method, path) in [(Method::GET, "/api/none"), (Method::POST, "/runs")] {
        let request = http_client().request(method, format!("{}{path}", fixture.url));
        let response = request.header(ACCEPT, "text/html").send().await.unwrap();
        let response = read_response(response).await;
        assert_eq!(
            (response.status, response.error_code()),
            (StatusCode::NOT_FOUND, "PATH_NOT_FOUND")
        );
    }
    let response = http_client()
        .get(format!("{}/none.js", fixture.url))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND, "a missing file is not a page");
}

/// A browser with its cookie.
struct Browser<'a> {
    fixture: &'a ApiFixture,
    cookie: String,
}

impl<'a> Browser<'a> {
    async fn sign_in(fixture: &'a ApiFixture, token: &str) -> Result<(Self, Value), StatusCode> {
        let request = json!({"token": token});
        let response = fixture.send(Method::POST, "/api/session", None, Some(&request)).await;
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains(token), "the cookie does not contain the token");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let session = read_response(response).await.body;
        Ok((Self { fixture, cookie }, session))
    }

    async fn send(&self, method: Method, path: &str, is_client: bool) -> StatusCode {
        let request = http_client().request(method, format!("{}{path}", self.fixture.url));
        let mut request = request.header(COOKIE, &self.cookie);
        if is_client {
            request = request.header("x-noetl-client", "web");
        }
        let response = request.json(&json!({})).send().await.unwrap();
        response.status()
    }

    async fn session(&self) -> Value {
        let request = http_client().get(format!("{}/api/session", self.fixture.url));
        let response = request.header(COOKIE, &self.cookie).send().await.unwrap();
        read_response(response).await.body
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_stands_for_the_token_until_the_user_signs_out() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let viewer = fixture.create_token(admin.reveal(), "viewer").await;
    assert_eq!(
        fixture.get("/api/session").await.body,
        json!({"auth": "required", "role": null, "name": null, "version": "0.1.0", "expires_at": null})
    );
    assert_eq!(
        Browser::sign_in(&fixture, "noetl_pat_wrong").await.err(),
        Some(StatusCode::UNAUTHORIZED)
    );
    let (browser, session) = Browser::sign_in(&fixture, &viewer).await.unwrap();
    assert_eq!(
        (&session["role"], &session["name"]),
        (&json!("viewer"), &json!("viewer"))
    );
    assert_eq!(browser.session().await["role"], "viewer");
    assert_eq!(browser.send(Method::GET, "/api/executions", true).await, StatusCode::OK);
    let forbidden = browser.send(Method::POST, "/api/catalog/register", true).await;
    assert_eq!(forbidden, StatusCode::FORBIDDEN, "a viewer may not register");
    assert_eq!(
        browser.send(Method::DELETE, "/api/session", true).await,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        browser.send(Method::GET, "/api/executions", true).await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(browser.session().await["role"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_token() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let request = json!({"name": "short", "role": "operator"});
    let created = fixture.send(Method::POST, "/api/tokens", Some(admin.reveal()), Some(&request));
    let created = read_response(created.await).await.body;
    let (browser, _) = Browser::sign_in(&fixture, created["token"].as_str().unwrap())
        .await
        .unwrap();
    assert_eq!(browser.send(Method::GET, "/api/executions", true).await, StatusCode::OK);
    let path = format!("/api/tokens/{}", created["id"].as_str().unwrap());
    let revoked = fixture.send(Method::DELETE, &path, Some(admin.reveal()), None).await;
    assert_eq!(revoked.status(), StatusCode::OK);
    assert_eq!(
        browser.send(Method::GET, "/api/executions", true).await,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_is_no_access_token() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let (browser, _) = Browser::sign_in(&fixture, admin.reveal()).await.unwrap();
    // The server has just looked up the session of this cookie.
    assert_eq!(browser.send(Method::GET, "/api/executions", true).await, StatusCode::OK);
    let (_, text) = browser.cookie.split_once('=').unwrap();
    let response = fixture.send(Method::GET, "/api/executions", Some(text), None).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let second_session = Browser::sign_in(&fixture, text).await;
    assert_eq!(
        second_session.err(),
        Some(StatusCode::UNAUTHORIZED),
        "no session outlives its token"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_use_the_cookie() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let (browser, _) = Browser::sign_in(&fixture, admin.reveal()).await.unwrap();
    let without_header = browser.send(Method::POST, "/api/execute", false).await;
    assert_eq!(without_header, StatusCode::FORBIDDEN);
    let with_header = browser.send(Method::POST, "/api/execute", true).await;
    assert_eq!(with_header, StatusCode::UNPROCESSABLE_ENTITY, "it names no playbook");
    let forged = Browser {
        fixture: &fixture,
        cookie: browser.cookie.replace("_session=1.", "_session=1.0"),
    };
    assert_eq!(
        forged.send(Method::GET, "/api/executions", true).await,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tokens_asks_nobody_to_sign_in() {
    let fixture = ApiFixture::open().await;
    let session = fixture.get("/api/session").await.body;
    assert_eq!((&session["auth"], &session["role"]), (&json!("open"), &json!("admin")));
}
