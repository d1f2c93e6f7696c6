//! Secrets: fetched when needed, put in place of their names, and masked in everything that leaves the worker.

use model::event::EventKind;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::json;

use super::fixture::{Behaviour, CANARY, first_payload, start_worker, step_error};

const STEPS: &str = "- step: s\n  tool:\n  - a: {kind: shell, command: x, auth: api, input: {t: '{{ keychain.api.token }}'}}\n  \
    - b: {kind: shell, command: 'echo {{ a.data.printed }}', auth: api}\n";

#[tokio::test(start_paused = true)]
async fn a_tool_gets_the_credential_and_the_log_does_not() {
    let fixture = start_worker(STEPS, |call| {
        assert_eq!(call.fields["auth"]["token"], CANARY);
        assert_eq!(call.fields["auth"]["type"], "bearer");
        Behaviour::Returns(Outcome::ok(json!({
            "printed": format!("<{CANARY}>"), "hex": hex::encode(CANARY), "user": "someone",
        })))
    });
    let reports = fixture.run_pipeline().await;
    let calls = fixture.tool.calls.borrow().clone();
    assert_eq!(calls[0].input["t"], CANARY);
    let piece = format!("{:?}", calls[1].pieces);
    assert!(piece.contains("<***>"), "{piece}");
    let done = first_payload(&reports, EventKind::TaskDone);
    let expected = json!({"printed": "<***>", "hex": "***", "user": "someone"});
    assert_eq!(done["outcome"]["result"], expected);
    let started = first_payload(&reports, EventKind::TaskStarted);
    assert_eq!(started["inputs"], json!({"t": "***"}));
    assert!(!format!("{reports:?}").contains(CANARY));
    // The second task uses the secret that was fetched for the first.
    let requests = fixture.server.secret_requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].names, ["api"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_shows_neither_the_credential_nor_the_userinfo_of_a_url() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: api}\n";
    let fixture = start_worker(steps, |_| {
        let message = format!("no {CANARY} at http://me:pw@host/");
        Behaviour::Returns(Outcome::error(TaskError::new(ErrorKind::Auth, "X", message)))
    });
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["message"], "no *** at http://***@host/");
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_fails_the_task_with_its_code() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: other}\n";
    let fixture = start_worker(steps, |_| panic!("the tool is not called"));
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "CREDENTIAL_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_secret_used_as_a_credential_name_is_not_requested() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: '{{ keychain[(\"a\" ~ \"pi\")].token }}', \
        input: {t: '{{ keychain.api.token }}'}}\n";
    let fixture = start_worker(steps, |_| panic!("the tool is not called"));
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["code"], "AUTH_UNRESOLVED");
    assert!(!format!("{reports:?}").contains(CANARY));
    let requests = fixture.server.secret_requests.lock().unwrap().clone();
    assert!(requests.iter().all(|request| request.names == ["api"]), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_credential_is_requested_again_and_fails_retryably() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: passing}\n";
    let fixture = start_worker(steps, |_| panic!("the tool is not called"));
    let reports = fixture.run_pipeline().await;
    let error = step_error(&reports);
    assert_eq!(error["retryable"], true);
    assert!(fixture.server.secret_requests.lock().unwrap().len() > 1);
}

#[tokio::test(start_paused = true)]
async fn texts_that_templates_derive_from_a_secret_are_masked_everywhere() {
    let steps = "- step: s\n  tool:\n  - a: {kind: shell, command: x, input: {t: '{{ keychain.api.token | reverse }}', \
        n: '{{ keychain.api.token | length }}'}, set: {ctx.n: '{{ input.n }}'}}\n  \
        - b: {kind: shell, command: x, cwd: '/x/{{ keychain.api.token | b64encode | reverse }}'}\n";
    let reversed: String = CANARY.chars().rev().collect();
    let expected = reversed.clone();
    let fixture = start_worker(steps, move |call| {
        if let Some(text) = call.input.get("t") {
            assert_eq!(*text, expected);
            let count = CANARY.len();
            return Behaviour::Returns(Outcome::ok(json!({"printed": text, "number": count})));
        }
        let message = format!("no folder {}", call.fields["cwd"].as_str().unwrap());
        let error = TaskError::new(ErrorKind::ClientError, "X", message);
        Behaviour::Returns(Outcome::error(error))
    });
    let reports = fixture.run_pipeline().await;
    let started = first_payload(&reports, EventKind::TaskStarted);
    assert_eq!(started["inputs"], json!({"t": "***", "n": "***"}));
    let done = first_payload(&reports, EventKind::TaskDone);
    let expected = json!({"printed": "***", "number": CANARY.len()});
    assert_eq!(done["outcome"]["result"], expected);
    let error = step_error(&reports);
    assert_eq!(error["message"], "no folder /x/***");
    let reported = format!("{reports:?}");
    assert!(
        !reported.contains(CANARY) && !reported.contains(&reversed),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_request_in_task_started_is_masked_and_truncated() {
    let long = "x".repeat(600);
    let steps = format!(
        "- step: s\n  tool:\n  - a: {{kind: shell, command: 'curl https://h/{{{{ keychain.api.token | upper }}}} {long}'}}\n"
    );
    let fixture = start_worker(&steps, |_| Behaviour::Returns(Outcome::ok(json!(1))));
    let reports = fixture.run_pipeline().await;
    let started = first_payload(&reports, EventKind::TaskStarted);
    let command = started["request"]["command"].as_str().unwrap();
    assert!(command.starts_with("curl https://h/*** xxx"), "{command}");
    assert!(command.ends_with("x…") && command.len() < 520, "{command}");
}
