//! The real binary: what a task prints and gives on a worker elsewhere is read at another server.

use std::net::TcpListener;

use serde_json::{Value, json};
use tests::binary::{Desk, Going};
use tests::peers::Postgres;

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
pub(crate) struct Mortal(pub(crate) Option<Going>);

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(going) = self.0.take() {
            going.kill();
        }
    }
}

fn start(desk: &Desk, args: &[&str]) -> Mortal {
    Mortal(Some(desk.start(args)))
}

/// A host and port that nobody uses at this moment.
pub(crate) fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// A server and where it is.
fn serve(desk: &Desk, store: &str) -> (String, Mortal) {
    let address = free_address();
    let server = start(desk, &["serve", "--store", store, "--listen", &address]);
    (format!("http://{address}"), server)
}

/// Asks until the answer fits.
pub(crate) async fn until(url: &str, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
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
async fn what_a_task_elsewhere_prints_and_gives_is_read_at_any_server() {
    let database = Postgres::shared().fresh_database();
    let desk = Desk::new();
    let (one, _first) = serve(&desk, &database.url());
    until(&one, "/readyz", |_| true).await;
    let (two, _second) = serve(&desk, &database.url());
    until(&two, "/readyz", |_| true).await;
    let _worker = start(&desk, &["worker", "--server", &one]);
    let client = wire::Client::new(std::slice::from_ref(&one), None).unwrap();
    let request = json!({"path": "talk", "playbook": PLAYBOOK});
    let started: Value = client.post("/api/execute", &request).await.unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let path = format!("/api/executions/{id}/logs");
    let two_lines = |page: &Value| {
        page["lines"]
            .as_array()
            .is_some_and(|lines| lines.len() == 2)
    };
    let page = until(&two, &path, two_lines).await;
    let mut said: Vec<(&str, &str)> = Vec::new();
    for line in page["lines"].as_array().unwrap() {
        assert_eq!(
            (&line["step"], &line["task"]),
            (&json!("start"), &json!("say"))
        );
        said.push((
            line["stream"].as_str().unwrap(),
            line["text"].as_str().unwrap(),
        ));
    }
    said.sort_unstable();
    assert_eq!(said, [("stderr", "trouble"), ("stdout", "hello")]);
    let rest = format!("{path}?after={}", page["next_after"]);
    assert_eq!(until(&two, &rest, |_| true).await["lines"], json!([]));
    let over = |run: &Value| run["status"] == "COMPLETED";
    until(&two, &format!("/api/executions/{id}/status"), over).await;
    assert!(!desk.path(".noetl/bodies").exists(), "bodies lie on a disk");
    let list = until(&two, &format!("/api/result/{id}/list"), |_| true).await;
    let reference = &list["results"][0]["reference"];
    assert_eq!(reference["store"], "postgres");
    let uri = reference["ref"].as_str().unwrap();
    let path = format!("/api/result/resolve?ref={uri}");
    let body = until(&two, &path, |_| true).await;
    assert_eq!(body["text"].as_str().unwrap().len(), 300_000);
}
