//! A full disk is said at once, to clients and on the terminal; what is refused has no effect, and the rest goes on when
//! there is room. A read-only disk can be read.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::binary::Desk;
use tests::serving::line;

use crate::small_disk::{Filler, on_read_only_disk, on_small_disk, require_mounts};

/// What is answered at once does not wait for anything; the time is that of a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

const WAITS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workflow:
  - step: wait
    tool: {kind: wait, duration: 300s}
";

const TWO_STEPS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two, path: tests/two}
workflow:
  - step: first
    tool: {kind: shell, command: 'touch begun; until [ -e go ]; do sleep 0.02; done'}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: shell, command: 'echo done'}
";

struct Server {
    child: Child,
    url: String,
    http: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(desk: &Desk) -> Self {
        let args = ["serve", "--store", "kept", "--listen", "127.0.0.1:0"];
        let mut command = on_small_disk(desk, &args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let ready = line(&mut said, "serving");
        let url = ready.split_whitespace().nth(1).unwrap().to_owned();
        // What it says later is read and dropped, so that it never waits for a reader.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        // Another test of this process may have done so before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(AT_ONCE).build().unwrap();
        Self { child, url, http }
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let answer = self.http.post(url).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await;
        let answer = answer.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Asks until the answer has this status.
    async fn until(&self, path: &str, status: u16) -> Value {
        for _ in 0..2_000 {
            let (found, body) = self.get(path).await;
            if found == status {
                return body;
            }
        }
        panic!("`{path}` never answered {status}");
    }

    async fn execute(&self) -> (u16, Value) {
        self.post("/api/execute", json!({"path": "tests/waits"}))
            .await
    }

    async fn runs(&self) -> Vec<Value> {
        let (status, body) = self.get("/api/executions").await;
        assert_eq!(status, 200, "{body}");
        body["executions"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_at_once_without_effect_and_goes_on_when_there_is_room() {
    require_mounts();
    let desk = Desk::new();
    let server = Server::start(&desk);
    let registered = server.post("/api/catalog/register", json!({"content": WAITS}));
    assert!(registered.await.0 < 300);
    let (status, first) = server.execute().await;
    assert!(status < 300, "{first}");
    let id = first["execution_id"].as_str().unwrap().to_owned();
    let cancel = format!("/api/executions/{id}/cancel");

    let filler = Filler::new(&desk, server.child.id());
    let (status, refused) = server.execute().await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    let (status, refused) = server.post(&cancel, json!({})).await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    let (status, ready) = server.get("/readyz").await;
    assert_eq!((status, &ready["code"]), (507, &json!("STORE_FULL")));
    assert!(ready["detail"].as_str().unwrap().contains("noetl.db"));

    drop(filler);
    server.until("/readyz", 200).await;
    let runs = server.runs().await;
    assert_eq!(runs.len(), 1, "what was refused took effect: {runs:?}");
    assert_eq!(runs[0]["status"], "RUNNING");
    let (status, second) = server.execute().await;
    assert!(status < 300, "{second}");
    let (status, cancelled) = server.post(&cancel, json!({})).await;
    assert!(status < 300, "{cancelled}");
    let runs = server.runs().await;
    assert_eq!(runs.len(), 2, "{runs:?}");
}

#[test]
fn a_run_says_that_the_disk_is_full_and_goes_on_when_there_is_room() {
    require_mounts();
    let desk = Desk::new();
    desk.write("two.yaml", TWO_STEPS);
    let mut command = on_small_disk(&desk, &["run", "two.yaml", "--store", "kept"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !desk.path("begun").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended too early");
        std::thread::yield_now();
    }
    let filler = Filler::new(&desk, child.id());
    desk.write("go", "");
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let full = line(&mut said, "STORE_FULL");
    assert!(full.contains("noetl.db"), "{full}");
    drop(filler);
    let rest: Vec<String> = said.lines().map_while(Result::ok).collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{rest:?}");
}

#[test]
fn a_read_only_store_can_be_read_and_refuses_a_run_by_name() {
    require_mounts();
    let desk = Desk::new();
    desk.write("two.yaml", TWO_STEPS);
    desk.write("go", "");
    let ran = desk.run(&["run", "two.yaml", "--store", "kept", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let id = ran.json()["execution_id"].as_str().unwrap().to_owned();
    let there = |args: &[&str]| on_read_only_disk(&desk, args).output().unwrap();
    for args in [
        &["runs", "--store", "kept"][..],
        &["show", &id, "--store", "kept"],
        &["events", &id, "--store", "kept"],
        &["result", &id, "--store", "kept"],
    ] {
        let read = there(args);
        assert_eq!(read.status.code(), Some(0), "{args:?}: {read:?}");
    }
    let refused = there(&["run", "two.yaml", "--store", "kept"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("STORE_READ_ONLY"), "{said}");
    assert!(said.contains("kept/"), "{said}");
}
