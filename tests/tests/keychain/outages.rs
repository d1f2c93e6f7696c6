//! Keychain entries that need the network, with the real binary: a secret manager returns the client secret for a token
//! endpoint, and the token gives access to an API.

use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, CommandOutput};
use tests::http::{FakeHttpServer, JsonReply, ReceivedRequest};

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: away, path: tests/away}
workload: {url: ""}
keychain:
  - {name: client, kind: vault, map: {id: "team/api#client_id", secret: "team/api#client_secret"}}
  - {name: api, kind: oauth2, endpoint: "{{ workload.url }}/token", client_id: "{{ keychain.client.id }}", client_secret: "{{ keychain.client.secret }}"}
workflow:
  - step: ask
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: http, url: "{{ workload.url }}/items/{{ n }}", auth: api}
"#;

/// Vault, a token endpoint and an API, each of which checks its callers.
fn peer_reply(request: &ReceivedRequest, _before: usize) -> JsonReply {
    let refused = |reason: &str| (403, json!({"errors": [reason]}));
    match request.path.as_str() {
        "/v1/secret/data/team/api" => match request.header("x-vault-token") {
            Some("vault-canary") => {
                let values = json!({"client_id": "us", "client_secret": "client-canary"});
                (200, json!({"data": {"data": values, "metadata": {"version": 4}}}))
            }
            _ => refused("permission denied"),
        },
        "/token" if request.method == "POST" => (200, json!({"access_token": "token-canary", "expires_in": 3600})),
        path if path.starts_with("/items/") => match request.header("authorization") {
            Some("Bearer token-canary") => (200, json!({"path": path})),
            _ => refused("who are you"),
        },
        _ => (404, Value::Null),
    }
}

fn run_playbook(sandbox: &CliSandbox, http: &FakeHttpServer, token: &str) -> CommandOutput {
    sandbox.write("away.yaml", PLAYBOOK);
    let url = format!("url={}", http.url());
    let mut command = sandbox.command(&["run", "away.yaml", "--set", &url, "-j", "-v"]);
    command.env("NOETL_VAULT_ADDR", http.url());
    command.env("NOETL_VAULT_TOKEN", token);
    let output = command.output().unwrap();
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_vault_and_a_token_endpoint_are_queried_once_per_run() {
    let (sandbox, http) = (CliSandbox::new(), FakeHttpServer::start(peer_reply));
    let output = run_playbook(&sandbox, &http, "vault-canary");
    assert_eq!(output.code, Some(0), "{output:?}");
    let paths: Vec<String> = http.requests().into_iter().map(|one| one.path).collect();
    let request_count = |path: &str| paths.iter().filter(|one| *one == path).count();
    assert_eq!(request_count("/v1/secret/data/team/api"), 1, "{paths:?}");
    assert_eq!(request_count("/token"), 1, "{paths:?}");
    for secret in ["vault-canary", "client-canary", "token-canary"] {
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(!text.contains(secret), "{secret} in {text}");
        let below = crate::scan::find_hits_below(&sandbox.path(".noetl"), secret);
        assert_eq!(below, Vec::<String>::new());
    }
}

#[test]
fn a_secret_manager_that_refuses_fails_the_run_by_the_entrys_name() {
    let (sandbox, http) = (CliSandbox::new(), FakeHttpServer::start(peer_reply));
    let output = run_playbook(&sandbox, &http, "wrong-canary");
    assert_ne!(output.code, Some(0), "{output:?}");
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("client") && text.contains("403"), "{text}");
    assert!(!text.contains("wrong-canary"), "{text}");
    assert!(http.requests().iter().all(|one| !one.path.starts_with("/items")));
}

const HANGING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hanging, path: tests/hanging}
workload: {url: ""}
keychain:
  - {name: api, kind: oauth2, endpoint: "{{ workload.url }}/token", client_id: us}
workflow:
  - step: ask
    tool: {kind: noop, input: {token: "{{ keychain.api.access_token }}"}}
"#;

const PLAIN: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: plain, path: tests/plain}
workload: {url: ""}
workflow:
  - step: ask
    tool: {kind: http, url: "{{ workload.url }}/plain"}
"#;

const PARENT: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: tests/parent}
workload: {url: ""}
workflow:
  - step: begin
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: first}, {step: second}]}
  - step: first
    tool: {kind: playbook, path: hanging.yaml, input: {url: "{{ workload.url }}"}}
  - step: second
    tool:
      - wait: {kind: http, url: "{{ workload.url }}/asked"}
      - child: {kind: playbook, path: plain.yaml, input: {url: "{{ workload.url }}"}}
"#;

#[test]
fn a_child_whose_endpoint_hangs_does_not_block_another_child() {
    let sandbox = CliSandbox::new();
    let (token, token_requested) = std::sync::mpsc::channel();
    let (other, plain_requested) = std::sync::mpsc::channel();
    let (token_requested, plain_requested) = (Mutex::new(token_requested), Mutex::new(plain_requested));
    let waits = |signal: &Mutex<Receiver<()>>| {
        let signal = signal.lock().unwrap();
        signal.recv_timeout(Duration::from_secs(8)).is_ok()
    };
    // The second child starts after the endpoint got a request; the endpoint responds when that child has sent one.
    let http = FakeHttpServer::start(move |request, _| match request.path.as_str() {
        "/token" => {
            let _ = token.send(());
            let body = json!({"access_token": "token-canary", "expires_in": 3600});
            (if waits(&plain_requested) { 200 } else { 403 }, body)
        }
        "/asked" => (if waits(&token_requested) { 200 } else { 404 }, json!({})),
        "/plain" => {
            let _ = other.send(());
            (200, json!({}))
        }
        _ => (404, Value::Null),
    });
    sandbox.write("hanging.yaml", HANGING);
    sandbox.write("plain.yaml", PLAIN);
    sandbox.write("parent.yaml", PARENT);
    let url = format!("url={}", http.url());
    let output = sandbox.run(&["run", "parent.yaml", "--set", &url, "-j"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}
