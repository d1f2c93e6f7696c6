//! The real binary: what a task prints and gives on a worker elsewhere is read at another server.

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
      - say: {kind: shell, command: 'echo hello; echo trouble >&2'}
      - much: {kind: python, code: 'result = {\"text\": \"x\" * 300000}'}
";

/// A process that ends with the test.
pub(crate) struct KillableProcess(pub(crate) Option<RunningCommand>);

impl Drop for KillableProcess {
    fn drop(&mut self) {
        if let Some(going) = self.0.take() {
            going.kill();
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

/// A server and where it is.
fn start_server(sandbox: &CliSandbox, store: &str) -> (String, KillableProcess) {
    let address = free_address();
    let server = start_process(sandbox, &["serve", "--store", store, "--listen", &address]);
    (format!("http://{address}"), server)
}

/// Asks until the answer fits.
pub(crate) async fn wait_until(url: &str, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let client = wire::Client::new(&[url.to_owned()], None).unwrap();
    loop {
        match client.get::<Value>(path).await {
            Ok(value) if fits(&value) => return value,
            // Each question takes its time.
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
    let (two, _second) = start_server(&sandbox, &database.url());
    wait_until(&two, "/readyz", |_| true).await;
    let _worker = start_process(&sandbox, &["worker", "--server", &first_node]);
    let client = wire::Client::new(std::slice::from_ref(&first_node), None).unwrap();
    let request = json!({"path": "talk", "playbook": PLAYBOOK});
    let started: Value = client.post("/api/execute", &request).await.unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let path = format!("/api/executions/{id}/logs");
    let two_lines = |page: &Value| page["lines"].as_array().is_some_and(|lines| lines.len() == 2);
    let page = wait_until(&two, &path, two_lines).await;
    let mut said: Vec<(&str, &str)> = Vec::new();
    for line in page["lines"].as_array().unwrap() {
        assert_eq!((&line["step"], &line["task"]), (&json!("start"), &json!("say")));
        said.push((line["stream"].as_str().unwrap(), line["text"].as_str().unwrap()));
    }
    said.sort_unstable();
    assert_eq!(said, [("stderr", "trouble"), ("stdout", "hello")]);
    let rest = format!("{path}?after={}", page["next_after"]);
    assert_eq!(wait_until(&two, &rest, |_| true).await["lines"], json!([]));
    let over = |run: &Value| run["status"] == "COMPLETED";
    wait_until(&two, &format!("/api/executions/{id}/status"), over).await;
    assert!(!sandbox.path(".noetl/bodies").exists(), "bodies lie on a disk");
    let list = wait_until(&two, &format!("/api/result/{id}/list"), |_| true).await;
    let reference = &list["results"][0]["reference"];
    assert_eq!(reference["store"], "postgres");
    let uri = reference["ref"].as_str().unwrap();
    let path = format!("/api/result/resolve?ref={uri}");
    let body = wait_until(&two, &path, |_| true).await;
    assert_eq!(body["text"].as_str().unwrap().len(), 300_000);
}
