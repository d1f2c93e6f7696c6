//! A cluster on this machine: a private Postgres, real server and worker processes, and a client for the load.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::peers::{PostgresServer, TestDatabase};
use wire::Client;

use crate::raw_limits::now;

/// Maximum time until a process is ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Where tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPlacement {
    /// In two worker processes.
    Separate,
    /// In the slots of the server.
    Embedded,
}

/// Processes that stop with this value.
pub(crate) struct BenchCluster {
    /// Client of the first server.
    pub(crate) client: Client,
    /// Time from the start of the first server until it was ready.
    pub(crate) ready_after: Duration,
    /// The database, if the cluster has one.
    database: Option<(PostgresServer, TestDatabase)>,
    server_pid: u32,
    processes: Vec<Child>,
    dir: TempDir,
}

impl Drop for BenchCluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // The process may have exited already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl BenchCluster {
    /// Starts one server on Postgres, and its workers.
    pub(crate) async fn start(placement: WorkerPlacement) -> anyhow::Result<Self> {
        let postgres = PostgresServer::private();
        let database = postgres.fresh_database();
        let url = database.url();
        let mut flags = vec!["--store", &url];
        if placement == WorkerPlacement::Embedded {
            flags.extend(["--local-slots", "8"]);
        }
        let mut cluster = Self::serve(&flags, Some((postgres, database))).await?;
        if placement == WorkerPlacement::Separate {
            for _ in 0..2 {
                cluster.spawn_worker()?;
            }
            cluster.wait_for_workers(2).await?;
        }
        Ok(cluster)
    }

    /// Starts one server on an embedded store.
    pub(crate) async fn start_embedded() -> anyhow::Result<Self> {
        Self::serve(&[], None).await
    }

    async fn serve(flags: &[&str], database: Option<(PostgresServer, TestDatabase)>) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let port = free_port()?;
        let listen = format!("127.0.0.1:{port}");
        let url = format!("http://{listen}");
        let started_at = now();
        let server = spawn_process(&dir, "server", &[&["serve", "--listen", &listen], flags].concat())?;
        let client = Client::new(&[url], None)?;
        while client.get::<Value>("/readyz").await.is_err() {
            anyhow::ensure!(started_at.elapsed() < START_TIMEOUT, "the server did not become ready");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Self {
            client,
            ready_after: started_at.elapsed(),
            database,
            server_pid: server.id(),
            processes: vec![server],
            dir,
        })
    }

    fn spawn_worker(&mut self) -> anyhow::Result<()> {
        let url = self.client.servers().join(",");
        let name = format!("worker-{}", self.processes.len());
        let worker = spawn_process(&self.dir, &name, &["worker", "--server", &url])?;
        self.processes.push(worker);
        Ok(())
    }

    async fn wait_for_workers(&self, count: usize) -> anyhow::Result<()> {
        let started_at = now();
        loop {
            let pools: Vec<Value> = self.client.get("/api/worker/pools").await?;
            if pools.len() >= count {
                return Ok(());
            }
            anyhow::ensure!(started_at.elapsed() < START_TIMEOUT, "the workers did not become ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Registers a playbook.
    pub(crate) async fn register(&self, text: &str) -> anyhow::Result<String> {
        let request = json!({"content": text});
        let registered: Value = self.client.post("/api/catalog/register", &request).await?;
        let path = registered["path"].as_str();
        Ok(path.context("a registered playbook has a path")?.to_owned())
    }

    /// Starts a run.
    pub(crate) async fn submit(&self, path: &str, payload: &Value) -> anyhow::Result<String> {
        let request = json!({"path": path, "payload": payload});
        let started: Value = self.client.post("/api/execute", &request).await?;
        let id = started["execution_id"].as_str();
        Ok(id.context("a run has an id")?.to_owned())
    }

    /// Waits for the end of a run on its event stream.
    pub(crate) async fn follow_run(&self, id: &str, after: u64) -> anyhow::Result<()> {
        let path = format!("/api/executions/{id}/stream?after_seq={after}");
        let mut stream = self.client.open_event_stream(&path, None).await?;
        while stream.chunk().await?.is_some() {}
        let status: Value = self.client.get(&format!("/api/executions/{id}/status")).await?;
        anyhow::ensure!(status["status"] == "COMPLETED", "a run ended with status {status}");
        Ok(())
    }

    /// Polls until a run has ended.
    pub(crate) async fn wait_for_run(&self, id: &str) -> anyhow::Result<()> {
        loop {
            let status: Value = self.client.get(&format!("/api/executions/{id}/status")).await?;
            match status["status"].as_str() {
                Some("RUNNING") => tokio::time::sleep(Duration::from_millis(10)).await,
                Some("COMPLETED") => return Ok(()),
                _ => anyhow::bail!("a run ended with status {status}"),
            }
        }
    }

    /// Waits until all runs have ended and checks that all succeeded. Polls the list of runs, not each run.
    pub(crate) async fn wait_for_all(&self, ids: &[String]) -> anyhow::Result<()> {
        loop {
            let running: Value = self.client.get("/api/executions?status=RUNNING&limit=1").await?;
            if running["executions"].as_array().is_some_and(Vec::is_empty) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let ended: Value = self
            .client
            .get(&format!("/api/executions?status=COMPLETED&limit={}", ids.len()))
            .await?;
        let ended = ended["executions"].as_array();
        let is_complete =
            |id: &String| ended.is_some_and(|ended| ended.iter().any(|run| run["execution_id"] == id.as_str()));
        anyhow::ensure!(ids.iter().all(is_complete), "a run did not complete");
        Ok(())
    }

    /// The database of the cluster.
    pub(crate) fn database(&self) -> &TestDatabase {
        let database = self.database.as_ref();
        &database.expect("a server on Postgres has a database").1
    }

    /// The process of the server.
    pub(crate) fn server_pid(&self) -> u32 {
        self.server_pid
    }

    /// Resident memory of the server.
    pub(crate) fn server_megabytes(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server_pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: f64 = kilobytes.context("cannot read the memory of the server")?.parse()?;
        Ok(kilobytes / 1024.0)
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

fn spawn_process(dir: &TempDir, name: &str, args: &[&str]) -> anyhow::Result<Child> {
    let process_dir = dir.path().join(name);
    std::fs::create_dir_all(&process_dir)?;
    let child = Command::new(noetl_path()?)
        .args(args)
        .current_dir(process_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child)
}

/// The `noetl` binary in the directory of this program.
fn noetl_path() -> anyhow::Result<PathBuf> {
    let mut path = std::env::current_exe()?;
    path.set_file_name("noetl");
    anyhow::ensure!(path.is_file(), "`{}` is not built", path.display());
    Ok(path)
}
