//! A server whose store is on a small disk, and requests of its clients.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::server_process::wait_for_line;
use tests::small_disk::SmallDisk;

/// A playbook whose runs stay open.
pub(crate) const WAITS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workflow:
  - step: wait
    tool: {kind: wait, duration: 300s}
";

/// Timeout of a request, long enough for a busy machine, so that a fault does not hang the test.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for what must happen by itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A server that stops with its test.
pub(crate) struct DiskServer {
    child: Child,
    url: String,
    http: reqwest::Client,
    log: RecordedLog,
}

/// A worker process that is killed when the value is dropped.
pub(crate) struct WorkerProcess {
    child: Child,
}

/// The output of a process.
struct RecordedLog(Arc<Mutex<String>>);

impl RecordedLog {
    /// Reads the output of a process on a thread until it is closed.
    fn read(lines: impl BufRead + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&text);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                written.lock().unwrap().push_str(&line);
            }
        });
        Self(text)
    }

    /// Waits until the log contains this text.
    async fn wait_for(&self, text: &str) {
        let start = tokio::time::Instant::now();
        loop {
            let log = self.0.lock().unwrap().clone();
            if log.contains(text) {
                return;
            }
            let is_overdue = start.elapsed() > WAIT_MAX;
            assert!(!is_overdue, "`{text}` is not in the log: {log}");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DiskServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a new disk. The sandbox is deleted with its value.
pub(crate) fn start_disk_server() -> (CliSandbox, SmallDisk, DiskServer) {
    let sandbox = CliSandbox::new();
    let small_disk = SmallDisk::mount(&sandbox.path(""));
    let server = DiskServer::start(&sandbox, &small_disk);
    (sandbox, small_disk, server)
}

impl DiskServer {
    pub(crate) fn start(sandbox: &CliSandbox, small_disk: &SmallDisk) -> Self {
        Self::start_with(sandbox, small_disk, &[])
    }

    /// Starts a server that runs no task itself.
    pub(crate) fn start_without_slots(sandbox: &CliSandbox, small_disk: &SmallDisk) -> Self {
        Self::start_with(sandbox, small_disk, &["--local-slots", "0"])
    }

    fn start_with(sandbox: &CliSandbox, small_disk: &SmallDisk, flags: &[&str]) -> Self {
        let serve = ["serve", "--store", "kept", "--listen", "127.0.0.1:0"];
        let mut command = small_disk.command(sandbox, &[&serve, flags].concat());
        command.env("NOETL_LOG", "warn");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let ready = wait_for_line(&mut stderr, "listening on");
        let url = ready.split_whitespace().nth(2).unwrap().to_owned();
        let log = RecordedLog::read(stderr);
        // Another test of this process may have installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(RESPONSE_TIMEOUT);
        let http = http.build().unwrap();
        Self { child, url, http, log }
    }

    /// Starts a worker of this server in a directory on another disk; it stops with the returned value.
    pub(crate) fn start_worker(&self, sandbox: &CliSandbox) -> WorkerProcess {
        let mut command = sandbox.command(&["worker", "--server", &self.url]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        WorkerProcess {
            child: command.spawn().unwrap(),
        }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let response = self.http.post(url).json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.http.get(format!("{}{path}", self.url)).send().await;
        let response = response.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Repeats a request until the response is as expected.
    pub(crate) async fn get_until(&self, path: &str, is_expected: impl Fn(u16, &Value) -> bool) -> Value {
        let start = tokio::time::Instant::now();
        loop {
            let (status, body) = self.get(path).await;
            if is_expected(status, &body) {
                return body;
            }
            let is_overdue = start.elapsed() > WAIT_MAX;
            assert!(!is_overdue, "`{path}` still returns {status}: {body}");
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the server has logged this.
    pub(crate) async fn wait_for_log(&self, text: &str) {
        self.log.wait_for(text).await;
    }

    /// Waits until the store accepts writes.
    pub(crate) async fn wait_until_ready(&self) {
        self.get_until("/readyz", |status, _| status == 200).await;
    }

    /// Waits until a run has this status.
    pub(crate) async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        let path = format!("/api/executions/{id}");
        self.get_until(&path, |_, run| run["status"] == status).await
    }

    pub(crate) async fn register(&self, playbook: &str) {
        let (status, body) = self.post("/api/catalog/register", json!({"content": playbook})).await;
        assert!(status < 300, "{body}");
    }

    pub(crate) async fn execute(&self, path: &str) -> (u16, Value) {
        self.post("/api/execute", json!({"path": path})).await
    }

    /// Starts a run; returns its ID.
    pub(crate) async fn start_run(&self, path: &str) -> String {
        let (status, started) = self.execute(path).await;
        assert!(status < 300, "{started}");
        started["execution_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn cancel(&self, id: &str) -> (u16, Value) {
        let path = format!("/api/executions/{id}/cancel");
        self.post(&path, json!({})).await
    }

    pub(crate) async fn list_runs(&self) -> Vec<Value> {
        let (status, body) = self.get("/api/executions?limit=1000").await;
        assert_eq!(status, 200, "{body}");
        body["executions"].as_array().unwrap().clone()
    }

    /// Number of commits that the store has rejected.
    pub(crate) async fn count_refused_commits(&self) -> u64 {
        let url = format!("{}/metrics", self.url);
        let text = self.http.get(url).send().await.unwrap();
        let text = text.text().await.unwrap();
        let mut lines = text.lines().map(str::split_whitespace);
        let count =
            lines.find_map(|mut fields| (fields.next() == Some("noetl_store_failures_total")).then(|| fields.next()));
        count.flatten().map_or(0, |count| count.parse().unwrap())
    }
}
