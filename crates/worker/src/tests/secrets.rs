//! Secrets: fetched when needed, put in place of their names, and masked in everything that leaves the worker.

use model::command::CommandWork;
use model::event::EventKind;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::json;

use super::fixture::{Behaviour, CANARY, claimed_command, events_of_kind, payload, start_worker};

const STEPS: &str = "- step: s\n  tool:\n  - a: {kind: shell, command: x, auth: api, input: {t: '{{ keychain.api.token }}'}}\n  \
    - b: {kind: shell, command: 'echo {{ a.data.said }}', auth: api}\n";

#[tokio::test(start_paused = true)]
async fn a_tool_is_given_the_credential_and_the_log_is_not() {
    let house = start_worker(STEPS, |call| {
        assert_eq!(call.fields["auth"]["token"], CANARY);
        assert_eq!(call.fields["auth"]["type"], "bearer");
        Behaviour::Returns(Outcome::ok(json!({
            "said": format!("<{CANARY}>"), "hex": hex::encode(CANARY), "user": "someone",
        })))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let calls = house.tool.calls.borrow().clone();
    assert_eq!(calls[0].input["t"], CANARY);
    let piece = format!("{:?}", calls[1].pieces);
    assert!(piece.contains("<***>"), "{piece}");
    let done = payload(&events_of_kind(&reports, EventKind::TaskDone)[0]);
    let expected = json!({"said": "<***>", "hex": "***", "user": "someone"});
    assert_eq!(done["outcome"]["result"], expected);
    let started = payload(&events_of_kind(&reports, EventKind::TaskStarted)[0]);
    assert_eq!(started["inputs"], json!({"t": "***"}));
    assert!(!format!("{reports:?}").contains(CANARY));
    // The second task uses the secret that was fetched for the first.
    let asked = house.server.secret_requests.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].names, ["api"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_shows_neither_the_credential_nor_who_asks() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: api}\n";
    let house = start_worker(steps, |_| {
        let message = format!("no {CANARY} at http://me:pw@host/");
        Behaviour::Returns(Outcome::error(TaskError::new(
            ErrorKind::Auth,
            "X",
            message,
        )))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let failed = payload(&events_of_kind(&reports, EventKind::StepFailed)[0]);
    assert_eq!(failed["error"]["message"], "no *** at http://***@host/");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_does_not_hand_out_fails_the_task_by_its_code() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: other}\n";
    let house = start_worker(steps, |_| panic!("the tool is not called"));
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let failed = payload(&events_of_kind(&reports, EventKind::StepFailed)[0]);
    assert_eq!(failed["error"]["code"], "CREDENTIAL_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_place_of_a_name_is_asked_for_nowhere() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: '{{ keychain[(\"a\" ~ \"pi\")].token }}', \
        input: {t: '{{ keychain.api.token }}'}}\n";
    let house = start_worker(steps, |_| panic!("the tool is not called"));
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let failed = payload(&events_of_kind(&reports, EventKind::StepFailed)[0]);
    assert_eq!(failed["error"]["code"], "AUTH_UNRESOLVED");
    assert!(!format!("{reports:?}").contains(CANARY));
    let asked = house.server.secret_requests.lock().unwrap().clone();
    assert!(asked.iter().all(|ask| ask.names == ["api"]), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_now_is_asked_for_again_and_fails_so_that_a_policy_may_retry() {
    let steps = "- step: s\n  tool: {kind: shell, command: x, auth: passing}\n";
    let house = start_worker(steps, |_| panic!("the tool is not called"));
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let failed = payload(&events_of_kind(&reports, EventKind::StepFailed)[0]);
    assert_eq!(failed["error"]["retryable"], true);
    assert!(house.server.secret_requests.lock().unwrap().len() > 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_template_makes_of_a_secret_is_masked_wherever_it_comes_back() {
    let steps = "- step: s\n  tool:\n  - a: {kind: shell, command: x, input: {t: '{{ keychain.api.token | reverse }}', \
        n: '{{ keychain.api.token | length }}'}, set: {ctx.n: '{{ input.n }}'}}\n  \
        - b: {kind: shell, command: x, cwd: '/x/{{ keychain.api.token | b64encode | reverse }}'}\n";
    let reversed: String = CANARY.chars().rev().collect();
    let expected = reversed.clone();
    let house = start_worker(steps, move |call| {
        if let Some(text) = call.input.get("t") {
            assert_eq!(*text, expected);
            let count = CANARY.len();
            return Behaviour::Returns(Outcome::ok(json!({"said": text, "number": count})));
        }
        let message = format!("no folder {}", call.fields["cwd"].as_str().unwrap());
        let error = TaskError::new(ErrorKind::ClientError, "X", message);
        Behaviour::Returns(Outcome::error(error))
    });
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let started = payload(&events_of_kind(&reports, EventKind::TaskStarted)[0]);
    assert_eq!(started["inputs"], json!({"t": "***", "n": "***"}));
    let done = payload(&events_of_kind(&reports, EventKind::TaskDone)[0]);
    let expected = json!({"said": "***", "number": CANARY.len()});
    assert_eq!(done["outcome"]["result"], expected);
    let failed = payload(&events_of_kind(&reports, EventKind::StepFailed)[0]);
    assert_eq!(failed["error"]["message"], "no folder /x/***");
    let all = format!("{reports:?}");
    assert!(!all.contains(CANARY) && !all.contains(&reversed), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_started_shows_its_request_masked_and_cut() {
    let long = "x".repeat(600);
    let steps = format!(
        "- step: s\n  tool:\n  - a: {{kind: shell, command: 'curl https://h/{{{{ keychain.api.token | upper }}}} {long}'}}\n"
    );
    let house = start_worker(&steps, |_| Behaviour::Returns(Outcome::ok(json!(1))));
    house
        .server
        .offer(claimed_command("s", 5, CommandWork::Pipeline));
    let reports = house.server.wait_for_end(5).await;
    let started = payload(&events_of_kind(&reports, EventKind::TaskStarted)[0]);
    let command = started["request"]["command"].as_str().unwrap();
    assert!(command.starts_with("curl https://h/*** xxx"), "{command}");
    assert!(command.ends_with("x…") && command.len() < 520, "{command}");
}
