//! Single sign-on, with an identity provider that can do everything wrong.

use std::time::Duration;

use reqwest::header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE};
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use server::SingleSignOn;
use server::api::AccessMode;

use crate::fixture::{ApiFixture, ApiResponse, http_client, read_response};
use crate::oidc_provider::{FakeProvider, ISSUER};

/// A browser that does not follow redirects by itself, with its cookies.
struct Browser {
    http: Client,
    cookies: Vec<(String, String)>,
}

impl Browser {
    fn new() -> Self {
        drop(http_client());
        let builder = Client::builder().redirect(reqwest::redirect::Policy::none());
        Self {
            http: builder.build().unwrap(),
            cookies: Vec::new(),
        }
    }

    /// Opens an address; returns where the response leads, and its cookies.
    async fn visit(&mut self, url: &str) -> (String, Vec<String>) {
        let response = self.http.get(url).header(COOKIE, self.cookie_header()).send().await;
        let response = response.unwrap();
        assert_eq!(response.status(), StatusCode::SEE_OTHER, "{url}");
        let headers: &HeaderMap = response.headers();
        let cookies = headers.get_all(SET_COOKIE).into_iter();
        let cookies: Vec<String> = cookies.map(|cookie| cookie.to_str().unwrap().to_owned()).collect();
        for cookie in &cookies {
            let (name, text) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(other, _)| other != name);
            if !text.is_empty() {
                self.cookies.push((name.to_owned(), text.to_owned()));
            }
        }
        (headers[LOCATION].to_str().unwrap().to_owned(), cookies)
    }

    fn cookie_header(&self) -> String {
        let cookies = self.cookies.iter().map(|(name, text)| format!("{name}={text}"));
        cookies.collect::<Vec<_>>().join("; ")
    }

    fn has_session(&self) -> bool {
        self.cookies.iter().any(|(name, _)| name == "noetl_session")
    }

    async fn get(&self, url: &str) -> ApiResponse {
        let request = self.http.get(url).header(COOKIE, self.cookie_header());
        read_response(request.send().await.unwrap()).await
    }

    /// Signs out.
    async fn sign_out(&self, url: &str) -> StatusCode {
        let request = self.http.delete(format!("{url}/api/session"));
        let request = request
            .header(COOKIE, self.cookie_header())
            .header("x-noetl-client", "web");
        request.send().await.unwrap().status()
    }
}

/// A server with single sign-on, and its provider.
struct SignOnFixture {
    fixture: ApiFixture,
    provider: FakeProvider,
}

impl SignOnFixture {
    async fn start() -> Self {
        let provider = FakeProvider::new();
        let fixture = ApiFixture::with_single_sign_on(|url| provider.single_sign_on(url)).await;
        Self { fixture, provider }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.fixture.url)
    }

    /// Opens the provider, and prepares the ID token of a person in these groups. Returns the address to which the
    /// provider sends the browser.
    async fn begin(&self, browser: &mut Browser, groups: &Value) -> String {
        let start = self.url("/api/session/oidc/start?return_to=/runs/7?tab=logs");
        let (location, cookies) = browser.visit(&start).await;
        assert!(cookies[0].contains("HttpOnly; SameSite=Lax"), "{cookies:?}");
        let location = Url::parse(&location).unwrap();
        assert!(location.as_str().starts_with(&format!("{ISSUER}/auth?")), "{location}");
        let parameter = |name: &str| {
            let mut pairs = location.query_pairs();
            let pair = pairs.find(|(other, _)| other == name);
            pair.unwrap_or_else(|| panic!("{location} has no {name}"))
                .1
                .into_owned()
        };
        assert_eq!(parameter("scope"), "openid profile");
        assert_eq!(parameter("code_challenge_method"), "S256");
        assert_eq!(parameter("redirect_uri"), self.url("/api/session/oidc/callback"));
        self.provider
            .prepare(&parameter("nonce"), &parameter("code_challenge"), groups);
        let state = parameter("state");
        self.url(&format!("/api/session/oidc/callback?code=good-code&state={state}"))
    }

    async fn sign_in(&self, groups: &Value) -> Browser {
        let mut browser = Browser::new();
        let callback = self.begin(&mut browser, groups).await;
        let (location, _) = browser.visit(&callback).await;
        assert_eq!(location, self.url("/runs/7?tab=logs"));
        browser
    }

    /// Code of the failure when a sign-in is changed in this way; empty if it succeeds.
    async fn failure(&self, change: impl FnOnce(&mut Browser, &mut String)) -> String {
        let mut browser = Browser::new();
        let mut callback = self.begin(&mut browser, &json!(["staff"])).await;
        change(&mut browser, &mut callback);
        let (location, _) = browser.visit(&callback).await;
        let location = Url::parse(&location).unwrap();
        assert_eq!(browser.has_session(), location.path() != "/sign-in", "{location}");
        let mut pairs = location.query_pairs();
        let failure = pairs.find(|(name, _)| name == "failure");
        failure.map_or_else(String::new, |(_, code)| code.into_owned())
    }

    async fn last_audit_entry(&self) -> Value {
        let admin = self.fixture.server.create_first_admin().await.unwrap().unwrap();
        let request = http_client().get(self.url("/api/audit?limit=1000"));
        let page = read_response(request.bearer_auth(admin.reveal()).send().await.unwrap()).await;
        page.body["entries"].as_array().unwrap().last().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_the_role_of_a_claim_until_signing_out_on_any_server() {
    let site = SignOnFixture::start().await;
    let other_url = site.fixture.listen(AccessMode::Tokens, |_| {
        Some(site.provider.single_sign_on(&site.fixture.url))
    });
    let other_url = other_url.await;
    let viewer = site.sign_in(&json!(["staff", "other"])).await;
    let session = viewer.get(&site.url("/api/session")).await.body;
    assert_eq!(
        (&session["name"], &session["role"], &session["auth"]),
        (&json!("ada"), &json!("viewer"), &json!("required"))
    );
    assert_eq!(session["single_sign_on"], json!({"name": "Example"}));
    for url in [&site.fixture.url, &other_url] {
        assert_eq!(
            viewer.get(&format!("{url}/api/executions")).await.status,
            StatusCode::OK
        );
        let refused = viewer.get(&format!("{url}/api/tokens")).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "a viewer lists no tokens");
    }
    let entry = site.last_audit_entry().await;
    assert_eq!(
        (&entry["actor"], &entry["outcome"]),
        (&json!("ada (user u-7)"), &json!("denied"))
    );

    let admin = site.sign_in(&json!(["staff", "noetl-admins"])).await;
    assert_eq!(admin.get(&site.url("/api/tokens")).await.status, StatusCode::OK);

    assert_eq!(viewer.sign_out(&site.fixture.url).await, StatusCode::NO_CONTENT);
    let refused = viewer.get(&site.url("/api/executions")).await;
    assert_eq!(refused.error_code(), "UNAUTHENTICATED");
    while viewer.get(&format!("{other_url}/api/executions")).await.status == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(admin.get(&site.url("/api/executions")).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_may_begin_on_one_server_and_end_on_another() {
    let site = SignOnFixture::start().await;
    let other_url = site.fixture.listen(AccessMode::Tokens, |_| {
        Some(site.provider.single_sign_on(&site.fixture.url))
    });
    let mut browser = Browser::new();
    let callback = site.begin(&mut browser, &json!("staff")).await;
    let callback = callback.replace(&site.fixture.url, &other_url.await);
    let (location, cookies) = browser.visit(&callback).await;
    assert_eq!(location, site.url("/runs/7?tab=logs"));
    let session = cookies
        .iter()
        .find(|cookie| cookie.starts_with("noetl_session="))
        .unwrap();
    assert!(session.contains("Max-Age=3600; HttpOnly; SameSite=Strict"), "{session}");
    assert!(
        cookies.iter().any(|cookie| cookie.starts_with("noetl_sign_in=; ")),
        "{cookies:?}"
    );
    assert!(browser.has_session());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_role_is_refused_and_recorded() {
    let site = SignOnFixture::start().await;
    let mut browser = Browser::new();
    let callback = site.begin(&mut browser, &json!(["visitors"])).await;
    let (location, _) = browser.visit(&callback).await;
    let expected = "/sign-in?failure=OIDC_NO_ROLE&return_to=%2Fruns%2F7%3Ftab%3Dlogs";
    assert_eq!(location, site.url(expected));
    assert!(!browser.has_session());
    let entry = site.last_audit_entry().await;
    assert_eq!(
        (&entry["action"], &entry["outcome"]),
        (&json!("session.start"), &json!("denied"))
    );
    assert_eq!(entry["detail"]["code"], "OIDC_NO_ROLE");
    assert!(entry["detail"]["reason"].as_str().unwrap().contains("u-7"), "{entry}");

    let text = site.fixture.get("/api/session/oidc/failures/OIDC_NO_ROLE").await;
    assert!(
        text.body["detail"].as_str().unwrap().contains("no role"),
        "{:?}",
        text.body
    );
    let unknown = site.fixture.get("/api/session/oidc/failures/NONE").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn tampered_sign_ins_and_tokens_are_refused() {
    let site = SignOnFixture::start().await;
    let provider = &site.provider;
    assert_eq!(site.failure(|_, _| {}).await, "", "the control succeeds");

    let foreign_state = |_: &mut Browser, callback: &mut String| callback.push('x');
    assert_eq!(site.failure(foreign_state).await, "OIDC_STATE_INVALID");
    let no_cookie = |browser: &mut Browser, _: &mut String| browser.cookies.clear();
    assert_eq!(site.failure(no_cookie).await, "OIDC_STATE_INVALID");
    let changed_cookie = |browser: &mut Browser, _: &mut String| browser.cookies[0].1.insert(20, 'A');
    assert_eq!(site.failure(changed_cookie).await, "OIDC_STATE_INVALID");
    let other_issuer = |_: &mut Browser, callback: &mut String| callback.push_str("&iss=https://evil.example");
    assert_eq!(site.failure(other_issuer).await, "OIDC_STATE_INVALID");
    let other_code = |_: &mut Browser, callback: &mut String| *callback = callback.replace("good", "other");
    assert_eq!(site.failure(other_code).await, "OIDC_CODE_REFUSED");
    let denied = |_: &mut Browser, callback: &mut String| {
        *callback = callback.replace("code=good-code", "error=access_denied");
    };
    assert_eq!(site.failure(denied).await, "OIDC_DENIED");

    for (claim, value, code) in [
        ("nonce", json!("other"), "OIDC_TOKEN_INVALID"),
        ("aud", json!("other"), "OIDC_TOKEN_INVALID"),
        ("iss", json!("https://login.example"), "OIDC_TOKEN_INVALID"),
        ("exp", json!(1_000), "OIDC_CLOCK"),
        ("iat", json!(4_000_000_000_u64), "OIDC_CLOCK"),
    ] {
        let changed = |_: &mut Browser, _: &mut String| provider.set_claim(claim, value);
        assert_eq!(site.failure(changed).await, code, "{claim}");
    }
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "HS256", "kid": "first"}),
        json!({"alg": "RS256", "kid": "first"}),
        json!({"alg": "ES256", "kid": "unknown"}),
    ] {
        provider.set_header(header.clone());
        assert_eq!(site.failure(|_, _| {}).await, "OIDC_TOKEN_INVALID", "{header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_signature_is_refused_although_its_key_id_is_known() {
    let site = SignOnFixture::start().await;
    assert_eq!(site.failure(|_, _| {}).await, "");
    site.provider.forge_signatures();
    assert_eq!(site.failure(|_, _| {}).await, "OIDC_TOKEN_INVALID");
    assert_eq!(
        site.provider.count_requests("/keys"),
        1,
        "a wrong signature is no reason to read the keys"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn new_keys_of_the_provider_are_found_with_few_requests() {
    let site = SignOnFixture::start().await;
    assert_eq!(site.failure(|_, _| {}).await, "");
    site.provider.rotate_key("second");
    assert_eq!(site.failure(|_, _| {}).await, "");
    assert_eq!(site.failure(|_, _| {}).await, "");
    assert_eq!(site.provider.count_requests("/keys"), 2);
    site.provider.rotate_key("third");
    assert_eq!(
        site.failure(|_, _| {}).await,
        "OIDC_TOKEN_INVALID",
        "the keys were read a moment ago"
    );
    assert_eq!(site.provider.count_requests("/keys"), 2);
    assert_eq!(site.provider.count_requests("/openid-configuration"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_provider_sessions_and_tokens_still_work() {
    let site = SignOnFixture::start().await;
    let admin = site.fixture.server.create_first_admin().await.unwrap().unwrap();
    let browser = site.sign_in(&json!("staff")).await;
    site.provider.set_down(true);
    assert_eq!(browser.get(&site.url("/api/executions")).await.status, StatusCode::OK);
    let request = json!({"token": admin.reveal()});
    let signed_in = http_client()
        .post(site.url("/api/session"))
        .json(&request)
        .send()
        .await
        .unwrap();
    assert_eq!(signed_in.status(), StatusCode::OK);
    assert_eq!(
        site.failure(|_, _| {}).await,
        "OIDC_UNREACHABLE",
        "discovery is cached, the exchange fails"
    );

    let provider = FakeProvider::new();
    provider.set_down(true);
    let fixture = ApiFixture::with_single_sign_on(|url| provider.single_sign_on(url)).await;
    let start = format!("{}/api/session/oidc/start", fixture.url);
    // More than the failed sign-ins that an address has per minute.
    for _ in 0..25 {
        let (location, _) = Browser::new().visit(&start).await;
        assert_eq!(location, format!("{}/sign-in?failure=OIDC_UNREACHABLE", fixture.url));
    }
    let requests = provider.count_requests("/openid-configuration");
    assert!(requests <= 3, "failures are cached for a moment: {requests} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_never_leads_to_another_site() {
    let site = SignOnFixture::start().await;
    for target in [
        "https://evil.example/",
        "//evil.example",
        "/%5Cevil.example",
        "/../evil",
        "/api/session",
        "javascript:alert(1)",
    ] {
        let mut browser = Browser::new();
        let mut start = Url::parse(&site.url("/api/session/oidc/start")).unwrap();
        start.query_pairs_mut().append_pair("return_to", target);
        let (location, _) = browser.visit(start.as_str()).await;
        let location = Url::parse(&location).unwrap();
        let pairs: std::collections::HashMap<_, _> = location.query_pairs().collect();
        site.provider
            .prepare(&pairs["nonce"], &pairs["code_challenge"], &json!("staff"));
        let callback = format!("/api/session/oidc/callback?code=good-code&state={}", pairs["state"]);
        let (location, _) = browser.visit(&site.url(&callback)).await;
        let expected = if target.starts_with("/%5C") { target } else { "/" };
        assert_eq!(location, site.url(expected), "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_the_public_url_decides() {
    let provider = FakeProvider::new();
    let public_url = "https://noetl.example/tools";
    let fixture = ApiFixture::with_single_sign_on(|_| provider.single_sign_on(public_url)).await;
    let mut browser = Browser::new();
    let start = format!("{}/api/session/oidc/start?return_to=/runs", fixture.url);
    let (location, cookies) = browser.visit(&start).await;
    let cookie = &cookies[0];
    assert!(cookie.starts_with("__Host-noetl_sign_in="), "{cookie}");
    assert!(cookie.contains("; Path=/;") && cookie.ends_with("; Secure"), "{cookie}");
    let location = Url::parse(&location).unwrap();
    let pairs: std::collections::HashMap<_, _> = location.query_pairs().collect();
    assert_eq!(pairs["redirect_uri"], format!("{public_url}/api/session/oidc/callback"));
    provider.prepare(&pairs["nonce"], &pairs["code_challenge"], &json!("staff"));
    let callback = format!(
        "{}/api/session/oidc/callback?code=good-code&state={}",
        fixture.url, pairs["state"]
    );
    // Another host of the same domain could set a cookie with the name that is used without TLS.
    let mut planted = Browser::new();
    let text = browser.cookies[0].1.clone();
    planted.cookies.push(("noetl_sign_in".to_owned(), text));
    let (location, _) = planted.visit(&callback).await;
    assert_eq!(location, format!("{public_url}/sign-in?failure=OIDC_STATE_INVALID"));
    let (location, cookies) = browser.visit(&callback).await;
    assert_eq!(location, format!("{public_url}/runs"));
    assert!(cookies[0].starts_with("__Host-noetl_session=2."), "{cookies:?}");
    assert!(cookies[0].ends_with("; Secure"), "{cookies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_time_and_with_the_rules_that_gave_the_role() {
    let provider = FakeProvider::new();
    let short = |url: &str| {
        let mut config = provider.config(url);
        config.session = Duration::from_secs(1);
        SingleSignOn::new(config).unwrap()
    };
    let fixture = ApiFixture::with_single_sign_on(short).await;
    let site = SignOnFixture {
        fixture,
        provider: provider.clone(),
    };
    let browser = site.sign_in(&json!("staff")).await;
    while browser.get(&site.url("/api/executions")).await.status == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let session = browser.get(&site.url("/api/session")).await.body;
    assert_eq!((&session["role"], &session["expires_at"]), (&json!(null), &json!(null)));

    let site = SignOnFixture::start().await;
    let browser = site.sign_in(&json!("staff")).await;
    let other_rules = |url: &str| {
        let mut config = site.provider.config(url);
        config.roles.remove("staff");
        Some(SingleSignOn::new(config).unwrap())
    };
    let with_other_rules = site.fixture.listen(AccessMode::Tokens, other_rules).await;
    let without = site.fixture.listen(AccessMode::Tokens, |_| None).await;
    assert_eq!(browser.get(&site.url("/api/executions")).await.status, StatusCode::OK);
    for url in [with_other_rules, without] {
        let refused = browser.get(&format!("{url}/api/executions")).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_provider_are_told_apart_and_limited() {
    let site = SignOnFixture::start().await;
    site.provider.refuse_codes("invalid_client");
    assert_eq!(site.failure(|_, _| {}).await, "OIDC_CODE_REFUSED");
    let entry = site.last_audit_entry().await;
    assert!(
        entry["detail"]["reason"].as_str().unwrap().contains("invalid_client"),
        "{entry}"
    );
    let mut codes = Vec::new();
    for _ in 0..21 {
        codes.push(site.failure(|_, callback| callback.push('x')).await);
    }
    assert_eq!(codes[18], "OIDC_STATE_INVALID");
    assert_eq!(codes[20], "TOO_MANY_FAILURES");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_single_sign_on_says_so() {
    let fixture = ApiFixture::guarded().await;
    for path in ["/api/session/oidc/start", "/api/session/oidc/callback"] {
        assert_eq!(fixture.get(path).await.error_code(), "OIDC_NOT_CONFIGURED");
    }
}
