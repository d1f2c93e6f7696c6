//! A server returns the memory of a burst of runs to the system.

use std::fs;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::peers;
use tests::server_process::ServerProcess;
use tokio::time::Instant;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: burst}
workload: {n: 0}
workflow:
  - step: one
    tool: {kind: noop, result: "{{ workload.n }}"}
"#;

/// Number of runs in the burst.
const RUNS: usize = 10_000;

/// Number of runs before it, which fill caches and open connections and threads.
const WARM_UP: usize = 500;

/// Number of concurrent requests.
const AT_ONCE: usize = 64;

/// A server returns unused memory every ten seconds, so after two rounds it has returned all it can.
const TRIM_WAIT: Duration = Duration::from_secs(25);

/// Memory that may remain: the burst fills the 16 MiB page caches of the embedded store, and a Postgres connection
/// keeps its buffers. At the end of the burst, before memory is returned, the process has 40 MB more than before it.
const GROWTH_BYTES_MAX: u64 = 24 << 20;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Anonymous memory of a process in bytes.
fn anonymous_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is running");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let text = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = text.and_then(|text| text.parse().ok()).expect("a size");
    kib * 1024
}

/// A server and its client.
struct BurstFixture {
    server: ServerProcess,
    client: reqwest::Client,
}

impl BurstFixture {
    async fn new(server: ServerProcess) -> Self {
        // Another test of this process may have installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let burst = Self {
            server,
            client: reqwest::Client::new(),
        };
        let playbook = json!({"path": "burst", "content": PLAYBOOK});
        burst.post("/api/catalog/register", &playbook).await;
        burst
    }

    async fn post(&self, path: &str, body: &Value) {
        let request = self.client.post(format!("{}{path}", self.server.url));
        let response = request.json(body).send().await.expect("the server responds");
        assert!(response.status().is_success(), "{response:?}");
    }

    /// Starts runs, and waits until all have ended.
    async fn run_executions(&self, runs: usize) {
        let requests = futures_util::stream::iter(0..runs).map(|n| async move {
            let request = json!({"path": "burst", "payload": {"n": n}});
            self.post("/api/execute", &request).await;
        });
        requests.buffer_unordered(AT_ONCE).collect::<()>().await;
        while self.is_running().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn is_running(&self) -> bool {
        let url = format!("{}/api/executions?status=RUNNING&limit=1", self.server.url);
        let response = self.client.get(url).send().await.expect("the server responds");
        let page: Value = response.json().await.expect("JSON");
        let runs = page["executions"].as_array().expect("a list");
        !runs.is_empty()
    }

    async fn check_memory_returned(self) {
        self.run_executions(WARM_UP).await;
        let before = anonymous_bytes(self.server.id());
        self.run_executions(RUNS).await;
        let peak = anonymous_bytes(self.server.id());
        let deadline = Instant::now() + TRIM_WAIT;
        loop {
            let now = anonymous_bytes(self.server.id());
            if now <= before + GROWTH_BYTES_MAX {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{before} bytes before the burst, {peak} at its end, {now} now"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_runs_leaves_no_memory_behind() {
    let sandbox = CliSandbox::new();
    let server = ServerProcess::start(&sandbox, &[]);
    BurstFixture::new(server).await.check_memory_returned().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_runs_leaves_no_memory_behind_on_postgres() {
    let database = peers::PostgresServer::shared().fresh_database();
    let sandbox = CliSandbox::new();
    let args = ["--listen", "127.0.0.1:0", "--local-slots", "8"];
    let server = ServerProcess::start_on_store(&sandbox, &database.url(), &args);
    BurstFixture::new(server).await.check_memory_returned().await;
}
