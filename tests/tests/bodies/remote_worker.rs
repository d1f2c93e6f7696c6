//! The real binary: output and result of a task that a remote worker ran can be read at any server.

use std::net::TcpListener;

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, RunningCommand};
use tests::peers::PostgresServer;

const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: talk, path: talk}
workflow:
  - step: start
    tool:
      - print: {kind: shell, command: 'echo hello; echo warning >&2'}
      - much: {kind: python, code: 'result = {\"text\": \"x\" * 300000}'}
";

/// A process that ends with the test.
pub(crate) struct KillableProcess(pub(crate) Option<RunningCommand>);

impl Drop for KillableProcess {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.kill();
        }
    }
}

fn start_process(sandbox: &CliSandbox, args: &[&str]) -> KillableProcess {
    KillableProcess(Some(sandbox.start(args)))
}

/// A host and port on which nothing listens.
pub(crate) fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// Starts a server; returns its URL, too.
fn start_server(sandbox: &CliSandbox, store: &str) -> (String, KillableProcess) {
    let address = free_address();
    let server = start_process(sandbox, &["serve", "--store", store, "--listen", &address]);
    (format!("http://{address}"), server)
}

/// Repeats a request until the response matches.
pub(crate) async fn wait_until(url: &str, path: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let client = wire::Client::new(&[url.to_owned()], None).unwrap();
    loop {
        match client.get::<Value>(path).await {
            Ok(value) if matches(&value) => return value,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_and_result_of_a_remote_task_are_read_at_any_server() {
    let database = PostgresServer::shared().fresh_database();
    let sandbox = CliSandbox::new();
    let (first_node, _first) = start_server(&sandbox, &database.url());
    wait_until(&first_node, "/readyz", |_| true).await;
    let (second_node, _second) = start_server(&sandbox, &database.url());
    wait_until(&second_node, "/readyz", |_| true).await;
    let _worker = start_process(&sandbox, &["worker", "--server", &first_node]);
    let client = wire::Client::new(std::slice::from_ref(&first_node), None).unwrap();
    let request = json!({"path": "talk", "playbook": PLAYBOOK});
    let started: Value = client.post("/api/execute", &request).await.unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let path = format!("/api/executions/{id}/logs");
    let two_lines = |page: &Value| page["lines"].as_array().is_some_and(|lines| lines.len() == 2);
    let page = wait_until(&second_node, &path, two_lines).await;
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for line in page["lines"].as_array().unwrap() {
        assert_eq!((&line["step"], &line["task"]), (&json!("start"), &json!("print")));
        lines.push((line["stream"].as_str().unwrap(), line["text"].as_str().unwrap()));
    }
    lines.sort_unstable();
    assert_eq!(lines, [("stderr", "warning"), ("stdout", "hello")]);
    let next_page = format!("{path}?after={}", page["next_after"]);
    assert_eq!(wait_until(&second_node, &next_page, |_| true).await["lines"], json!([]));
    let is_completed = |run: &Value| run["status"] == "COMPLETED";
    wait_until(&second_node, &format!("/api/executions/{id}/status"), is_completed).await;
    assert!(!sandbox.path(".noetl/bodies").exists(), "the result is not on the disk");
    let list = wait_until(&second_node, &format!("/api/result/{id}/list"), |_| true).await;
    let reference = &list["results"][0]["reference"];
    assert_eq!(reference["store"], "postgres");
    let uri = reference["ref"].as_str().unwrap();
    let path = format!("/api/result/resolve?ref={uri}");
    let body = wait_until(&second_node, &path, |_| true).await;
    assert_eq!(body["text"].as_str().unwrap().len(), 300_000);
}
