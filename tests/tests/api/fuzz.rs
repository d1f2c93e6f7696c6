//! Fuzz test of the API: every response is documented in the API document, and no request succeeds without a token.
//!
//! Schemathesis generates the requests from the document. `cargo xtask test` installs it into the tests' environment.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use server::Server;

use crate::fixture::ApiFixture;

/// Routes that wait or stream by design; other tests of this directory cover them.
const WAITING_ROUTES: &str = "/stream|/listen|/claim";

/// Checks of every response.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[expect(
    clippy::disallowed_methods,
    reason = "the test runner names the tests' environment in a variable"
)]
fn schemathesis_path() -> PathBuf {
    let python = std::env::var_os("NOETL_TEST_PYTHON").map(PathBuf::from);
    let python = python.or_else(|| {
        let test = std::env::current_exe().ok()?;
        Some(test.ancestors().nth(3)?.join("test-env/bin/python"))
    });
    let st = python.map(|python| python.with_file_name("st"));
    let st = st.filter(|st| st.is_file());
    st.expect("schemathesis not found: run `cargo xtask test`, which installs it")
}

/// Sends generated requests; returns the status of each response by path.
async fn fuzz_statuses(fixture: &ApiFixture, token: Option<&str>) -> Vec<(String, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let document = dir.path().join("openapi.json");
    std::fs::write(&document, Server::api_document()).unwrap();
    let report = dir.path().join("report.har");
    let mut command = Command::new(schemathesis_path());
    command
        .current_dir(dir.path())
        .arg("run")
        .arg(&document)
        .args(["--url", &fixture.url, "--phases", "coverage,fuzzing", "-n", "4"])
        .args(["--request-timeout", "20", "--exclude-path-regex", WAITING_ROUTES])
        .args([
            "--checks",
            CHECKS,
            "--continue-on-failure",
            "--no-color",
            "--warnings",
            "off",
        ])
        .args(["--generation-deterministic", "--report", "har", "--report-har-path"])
        .arg(&report);
    if let Some(token) = token {
        command.args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().expect("schemathesis starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let entries = report["log"]["entries"].as_array().expect("a report has entries");
    let entries = entries.iter().map(|entry| {
        let url = entry["request"]["url"].as_str().unwrap_or_default();
        let path = url.strip_prefix(&fixture.url).unwrap_or(url);
        let path = path.split('?').next().unwrap_or_default().to_owned();
        (path, entry["response"]["status"].as_u64().unwrap_or(0))
    });
    entries.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_without_a_token_get_nowhere() {
    let fixture = ApiFixture::guarded().await;
    let statuses = fuzz_statuses(&fixture, None).await;
    assert!(statuses.len() > 200, "{} requests", statuses.len());
    for (path, status) in statuses {
        let is_open = ["/healthz", "/readyz", "/api/session"].contains(&path.as_str());
        assert!(is_open || !(200..300).contains(&status), "{path} returned {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_of_a_viewer_change_nothing() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let viewer = fixture.create_token(admin.reveal(), "viewer").await;
    let statuses = fuzz_statuses(&fixture, Some(&viewer)).await;
    assert!(statuses.len() > 200, "{} requests", statuses.len());
    assert!(statuses.iter().any(|(_, status)| *status == 403));
    assert!(statuses.iter().any(|(_, status)| *status == 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_of_an_admin_match_the_api_document() {
    let fixture = ApiFixture::guarded().await;
    let admin = fixture.server.create_first_admin().await.unwrap().unwrap();
    let statuses = fuzz_statuses(&fixture, Some(admin.reveal())).await;
    assert!(statuses.len() > 200, "{} requests", statuses.len());
    assert!(statuses.iter().any(|(_, status)| *status == 200));
    assert!(statuses.iter().all(|(_, status)| *status < 500), "no server errors");
}
