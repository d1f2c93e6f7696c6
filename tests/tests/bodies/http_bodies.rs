//! The contract tests over HTTP, and what a worker does when one of its servers crashes.

use std::net::TcpListener;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use model::id::ExecutionId;
use model::task_log::LogLine;
use results::contract::{BodyStoreFixture, noise_bytes, reference_to};
use results::{BodySource, BodyStore, DirBodyStore, Error, FileLogs, LogPage, LogQuery, StoredBody, TaskLogs};
use server::Server;
use store::Store;
use tempfile::TempDir;
use tests::peers::FaultProxy;
use tests::stack::{LocalApi, server_config};
use worker::{HttpBodyStore, HttpTaskLogs};

/// A server over a directory.
struct HttpBodyFixture {
    dir: TempDir,
    api: LocalApi,
    store: Arc<dyn Store>,
}

impl HttpBodyFixture {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(store::SqliteStore::open(dir.path()).unwrap());
        let bodies = Arc::new(DirBodyStore::open(dir.path()).unwrap());
        let server = Server::start(server_config(store.clone(), bodies)).unwrap();
        let logs = FileLogs::open(dir.path().join("logs")).unwrap();
        let api = LocalApi::start(server, logs).await;
        Self { dir, api, store }
    }

    fn port(&self) -> &str {
        self.api.url.rsplit(':').next().unwrap()
    }
}

fn client(servers: &[&str]) -> wire::Client {
    let servers: Vec<String> = servers.iter().map(|&url| url.to_owned()).collect();
    wire::Client::new(&servers, None).unwrap()
}

#[async_trait]
impl BodyStoreFixture for HttpBodyFixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        Arc::new(HttpBodyStore::new(client(&[&self.api.url])))
    }

    async fn damage_body(&self, stored: &StoredBody) {
        let (folder, file_name) = stored.sha256.split_at(2);
        let file = self.dir.path().join("bodies").join(folder).join(file_name);
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }

    fn may_remove(&self) -> bool {
        false
    }
}

results::contract_suite!(HttpBodyFixture::new().await);

/// The executions that the suite names, by the names that the store gave them.
struct RenamedExecutions {
    logs: HttpTaskLogs,
    real: [ExecutionId; 2],
}

impl RenamedExecutions {
    const CONTRACT_IDS: [ExecutionId; 2] = [ExecutionId(7), ExecutionId(8)];

    fn rename(line: &LogLine, from: [ExecutionId; 2], to: [ExecutionId; 2]) -> LogLine {
        let index = from.iter().position(|id| *id == line.execution).unwrap();
        let execution = to[index];
        LogLine {
            execution,
            ..line.clone()
        }
    }
}

#[async_trait]
impl TaskLogs for RenamedExecutions {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        let lines = lines.iter();
        let lines: Vec<LogLine> = lines
            .map(|line| Self::rename(line, Self::CONTRACT_IDS, self.real))
            .collect();
        self.logs.append(&lines).await
    }

    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error> {
        let index = Self::CONTRACT_IDS.iter().position(|id| *id == execution).unwrap();
        let mut page = self.logs.read(self.real[index], query).await?;
        for stored in &mut page.lines {
            stored.line = Self::rename(&stored.line, self.real, Self::CONTRACT_IDS);
        }
        Ok(page)
    }
}

mod logs {
    use super::*;

    results::logs_contract_suite!({
        let fixture = HttpBodyFixture::new().await;
        let mut real = Vec::new();
        for _ in 0..2 {
            let commit = store::contract::creation_commit(&*fixture.store);
            real.push(commit.execution);
            fixture.store.commit(commit).await.unwrap();
        }
        let logs = HttpTaskLogs::new(client(&[&fixture.api.url]));
        let real = real.try_into().unwrap();
        let logs: Arc<dyn TaskLogs> = Arc::new(RenamedExecutions { logs, real });
        (logs, fixture)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_an_execution_that_does_not_exist_is_not_stored() {
    let fixture = HttpBodyFixture::new().await;
    let logs = HttpTaskLogs::new(client(&[&fixture.api.url]));
    let line = results::contract::log_line("lost");
    logs.append(std::slice::from_ref(&line)).await.unwrap();
    assert!(!fixture.dir.path().join("logs/7.ndjson").exists());
    let query = LogQuery {
        limit: 1,
        ..LogQuery::default()
    };
    let error = logs.read(line.execution, &query).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_REFUSED");
    assert!(!error.is_retryable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_dead_is_passed_over() {
    let fixture = HttpBodyFixture::new().await;
    // Binding a port and releasing it gives a port on which nothing listens.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bodies = HttpBodyStore::new(client(&[&format!("http://{dead}"), &fixture.api.url]));
    let stored = bodies.put(BodySource::Bytes(noise_bytes(100))).await.unwrap();
    assert_eq!(bodies.get(&reference_to(&stored)).await.unwrap(), noise_bytes(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_met_a_dead_server_meets_the_next_one_when_it_is_sent_again() {
    let fixture = HttpBodyFixture::new().await;
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bodies = HttpBodyStore::new(client(&[&format!("http://{dead}"), &fixture.api.url]));
    let body = noise_bytes(100);
    let first = bodies.put(BodySource::Stream(&mut &body[..])).await;
    assert!(first.unwrap_err().is_retryable());
    assert!(bodies.put(BodySource::Stream(&mut &body[..])).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_download_continues_at_another_server() {
    let fixture = HttpBodyFixture::new().await;
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", fixture.port()));
    let through = format!("http://127.0.0.1:{}", proxy.port());
    let bodies = HttpBodyStore::new(client(&[&through, &fixture.api.url]));
    let body = noise_bytes(32 * 1024 * 1024);
    let stored = bodies.put(BodySource::Bytes(body.clone())).await.unwrap();
    let mut reading = bodies.read(&reference_to(&stored), None).await.unwrap();
    let first = reading.chunks.next().await.unwrap().unwrap();
    proxy.set_refusing(true);
    proxy.cut_connections();
    let file_name: Vec<bytes::Bytes> = reading.chunks.try_collect().await.unwrap();
    assert!([&first[..], &file_name.concat()].concat() == body);
}
