//! One execution never delays another, and it can always be cancelled.

use std::fmt::Write as _;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::fixture::ApiFixture;

const SMALL: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: small}\n\
                     workflow: [{step: only, next: [{step: end}]}]\n";

const ENDLESS: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: endless}\n\
                       executor: {spec: {policy: {limits: {max_step_runs: 4000000000}}}}\n\
                       workflow:\n  - {step: ping, next: [{step: pong}]}\n  - {step: pong, next: [{step: ping}]}\n";

/// A step with arcs to this number of steps, which all have an arc to one step.
fn wide_playbook(steps: usize) -> String {
    let mut text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: wide}\nworkflow:\n".to_owned();
    let arcs = (0..steps).map(|n| format!("{{step: s{n}, when: \"{{{{ true }}}}\"}}"));
    let arcs = arcs.collect::<Vec<_>>().join(", ");
    writeln!(
        text,
        "  - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}"
    )
    .unwrap();
    for n in 0..steps {
        writeln!(text, "  - {{step: s{n}, next: [{{step: done}}]}}").unwrap();
    }
    text + "  - {step: done, next: [{step: end}]}\n"
}

async fn wait_for_end(fixture: &ApiFixture, execution: &str) -> Value {
    fixture
        .wait_for_end(&format!("/api/executions/{execution}/status"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_never_ends_delays_no_other_and_can_be_cancelled() {
    let fixture = ApiFixture::open().await;
    let endless = fixture.execute(ENDLESS).await;
    let small = fixture.execute(SMALL).await;
    assert_eq!(wait_for_end(&fixture, &small).await["status"], "COMPLETED");
    let status = fixture.get(&format!("/api/executions/{endless}/status")).await;
    assert_eq!(status.body["status"], "RUNNING");
    let cancel = format!("/api/executions/{endless}/cancel");
    let response = fixture.post(&cancel, &json!({})).await;
    assert_eq!(response.status, StatusCode::OK, "{:?}", response.body);
    assert_eq!(wait_for_end(&fixture, &endless).await["status"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_net_delays_no_other_run_and_ends() {
    let fixture = ApiFixture::open().await;
    let large = fixture.execute(&wide_playbook(2_500)).await;
    let small = fixture.execute(SMALL).await;
    let small = wait_for_end(&fixture, &small).await;
    let large = wait_for_end(&fixture, &large).await;
    assert_eq!(small["status"], "COMPLETED", "{small}");
    assert_eq!(large["status"], "COMPLETED", "{large}");
    let finished = |run: &Value| run["finished_at"].as_str().unwrap().to_owned();
    assert!(finished(&small) < finished(&large), "{small} {large}");
}
