//! The embedded stack in a temporary directory: store, server, worker.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use server::{Server, SubmitRequest};
use tempfile::TempDir;
use tests::stack::server_config;
use tokio_util::sync::CancellationToken;

/// A running stack.
pub(crate) struct BenchStack {
    pub(crate) server: Server,
    pub(crate) store: Arc<store::SqliteStore>,
    pub(crate) dir: TempDir,
    stop: CancellationToken,
    worker: tokio::task::JoinHandle<worker::WorkEnd>,
}

impl BenchStack {
    /// Starts a stack.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let store = Arc::new(store::SqliteStore::open(dir.path())?);
        let bodies: Arc<dyn results::BodyStore> = Arc::new(results::DirBodyStore::open(&dir.path().join("bodies"))?);
        let server = Server::start(server_config(store.clone(), bodies.clone()))?;
        let stop = CancellationToken::new();
        let worker = worker::Worker::new(worker_config(dir.path(), bodies)?, server.transport());
        let worker = tokio::spawn(worker.run(stop.clone()));
        Ok(Self {
            server,
            store,
            dir,
            stop,
            worker,
        })
    }

    /// Starts a run.
    pub(crate) async fn submit(&self, text: &str, payload: Option<RawJson>) -> anyhow::Result<ExecutionId> {
        let submission = SubmitRequest {
            name: "bench.yaml".to_owned(),
            text: text.to_owned(),
            payload,
            labels: model::labels::Labels::default(),
        };
        match self.server.submit(submission).await {
            Ok(id) => Ok(id),
            Err(server::SubmitError::Invalid(diagnostics)) => {
                let first = diagnostics.first().map(|first| first.message.clone());
                anyhow::bail!("the playbook of the benchmark is invalid: {first:?}")
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a playbook and waits for its end.
    pub(crate) async fn run_playbook(&self, text: &str, payload: Option<RawJson>) -> anyhow::Result<ExecutionId> {
        let id = self.submit(text, payload).await?;
        self.wait_for_end(id).await?;
        Ok(id)
    }

    /// Waits for the end of a run.
    pub(crate) async fn wait_for_end(&self, id: ExecutionId) -> anyhow::Result<()> {
        let status = self.server.wait_until_settled(id).await?;
        anyhow::ensure!(status == RunStatus::Completed, "run {id} ended with status {status}");
        Ok(())
    }

    /// Size of the database after a checkpoint of its write-ahead log.
    pub(crate) fn database_bytes(&self) -> anyhow::Result<u64> {
        let db = rusqlite::Connection::open(self.dir.path().join("noetl.db"))?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(std::fs::metadata(self.dir.path().join("noetl.db"))?.len())
    }

    /// Stops the stack.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.worker).await??;
        self.server.stop().await;
        Ok(())
    }
}

fn worker_config(dir: &Path, bodies: Arc<dyn results::BodyStore>) -> anyhow::Result<worker::Config> {
    let python = tools::PythonConfig {
        pool_max: 2,
        ..tools::PythonConfig::default()
    };
    let tools = tools::Registry::builtin(tools::Config {
        python,
        ..tools::Config::default()
    });
    let logs = worker::FileLogs::open(dir.join("logs"))?;
    Ok(worker::Config {
        worker: WorkerId("bench".into()),
        pool: "default".into(),
        kinds: None,
        slots: 32,
        tools,
        bodies,
        logs: Arc::new(logs),
        clock: Arc::new(worker::SystemClock::default()),
        env: serde_json::Map::new(),
        base_dir: dir.to_owned(),
        scratch_dir: dir.join("scratch"),
        heartbeat: Duration::from_secs(5),
        playbooks: language::playbook::SharedPlaybooks::default(),
        jumps_max: worker::JUMPS_MAX,
    })
}
