//! Listening servers in this process, on a store that several of them can share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, WorkerId};
use serde_json::{Value, json};
use server::Server;
use server::api::{AccessMode, ApiConfig, BoundListener, SystemConfig};
use store::{PostgresOptions, PostgresStore, PostgresUrl, Store};
use tempfile::TempDir;
use tests::peers;
use tests::stack::server_config;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Interval between two checks.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A store that several servers can open.
pub(crate) enum SharedStoreFixture {
    Directory(TempDir),
    Database(peers::TestDatabase),
}

impl SharedStoreFixture {
    pub(crate) fn directory() -> Self {
        Self::Directory(tempfile::tempdir().expect("a temporary directory can be created"))
    }

    pub(crate) fn database() -> Self {
        Self::Database(peers::PostgresServer::shared().fresh_database())
    }

    /// A separate connection to the database.
    pub(crate) async fn raw_client(&self) -> tokio_postgres::Client {
        let Self::Database(database) = self else {
            panic!("a directory has no connections");
        };
        let connected = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("the database is up");
        tokio::spawn(connection);
        client
    }

    /// Host and port of the database.
    pub(crate) fn server_address(&self) -> String {
        let Self::Database(database) = self else {
            panic!("a directory has no address");
        };
        let url = database.url();
        let port = url.rsplit(':').next().and_then(|end| end.split('/').next());
        format!("127.0.0.1:{}", port.expect("a URL has a port"))
    }

    async fn open(&self, address: &str, port: Option<u16>) -> Arc<dyn Store> {
        match self {
            Self::Directory(dir) => Arc::new(store::SqliteStore::open(dir.path()).expect("the store can be opened")),
            Self::Database(database) => {
                let options = PostgresOptions {
                    address: Some(address.to_owned()),
                    pool_size: 4,
                    ..PostgresOptions::new(PostgresUrl::new(
                        port.map_or_else(|| database.url(), |port| database.url_at(port)),
                    ))
                };
                Arc::new(PostgresStore::open(options).await.expect("the store can be opened"))
            }
        }
    }
}

/// A listening server; it stops with this value.
pub(crate) struct ServerNode {
    pub(crate) server: Server,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) url: String,
    dir: TempDir,
    client: reqwest::Client,
    _listening: DropGuard,
}

/// A server on this store.
pub(crate) async fn start_node(fixture: &SharedStoreFixture) -> ServerNode {
    start_node_behind(fixture, None).await
}

/// A server on this store, which it reaches through this port.
pub(crate) async fn start_node_behind(fixture: &SharedStoreFixture, port: Option<u16>) -> ServerNode {
    // A process must choose its TLS provider once; a second attempt fails, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listening = BoundListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listening.address());
    let store = fixture.open(&url, port).await;
    let secret = match fixture {
        SharedStoreFixture::Directory(_) => None,
        SharedStoreFixture::Database(_) => {
            let secret = store.setting("cluster_secret").await;
            secret.expect("settings can be read")
        }
    };
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let bodies = results::DirBodyStore::open(dir.path()).expect("the body store can be opened");
    let server = Server::start(server::Config {
        may_adopt: true,
        cluster_secret: secret.clone(),
        ..server_config(store.clone(), Arc::new(bodies))
    });
    let server = server.expect("the server starts");
    let stop = CancellationToken::new();
    let logs = results::FileLogs::open(dir.path().join("tasks"));
    let config = ApiConfig {
        access: AccessMode::Open,
        is_loopback: true,
        hosts: Vec::new(),
        logs: Arc::new(logs.expect("the log directory can be created")),
        cluster_secret: secret,
        system: SystemConfig::default(),
        single_sign_on: None,
    };
    tokio::spawn(listening.serve(server.clone(), config, None, stop.clone()));
    ServerNode {
        server,
        store,
        url,
        dir,
        client: reqwest::Client::new(),
        _listening: stop.drop_guard(),
    }
}

/// Response to a call.
#[derive(Debug)]
pub(crate) struct NodeResponse {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl ServerNode {
    pub(crate) async fn post(&self, path: &str, body: &Value) -> NodeResponse {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        let response = request.send().await.expect("the server responds");
        let status = response.status().as_u16();
        let bytes = response.bytes().await.expect("a complete response");
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        NodeResponse { status, body }
    }

    pub(crate) async fn register(&self, path: &str, text: &str) {
        let request = json!({"path": path, "content": text});
        let response = self.post("/api/catalog/register", &request).await;
        assert!(response.status < 300, "{response:?}");
    }

    pub(crate) async fn execute(&self, request: &Value) -> ExecutionId {
        execution_id(&self.post("/api/execute", request).await)
    }

    /// Waits until a run has ended, and returns its result.
    pub(crate) async fn wait_for_result(&self, id: ExecutionId) -> Value {
        loop {
            let row = self.store.execution(id).await.expect("the store responds");
            if row.is_some_and(|row| row.status.is_terminal()) {
                return self.server.result(id).await.expect("the run has a result").result;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops the server, and waits until it has left the database's table of processes.
    pub(crate) async fn shut_down(self, raw: &tokio_postgres::Client) {
        self.server.clone().stop().await;
        drop(self);
        let living = "SELECT count(*) FROM noetl.runtime WHERE heartbeat > 0";
        while raw
            .query_one(living, &[])
            .await
            .expect("the store's tables")
            .get::<_, i64>(0)
            > 0
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// A worker of this server, until the value is dropped.
    pub(crate) fn start_worker(&self, name: &str) -> DropGuard {
        let logs = results::FileLogs::open(self.dir.path().join("logs"));
        let bodies = results::DirBodyStore::open(self.dir.path()).expect("the body store can be opened");
        let config = worker::Config {
            worker: WorkerId(name.into()),
            pool: "default".into(),
            kinds: None,
            slots: 2,
            tools: tools::Registry::builtin(tools::Config::default()),
            bodies: Arc::new(bodies),
            logs: Arc::new(logs.expect("the log directory can be created")),
            clock: Arc::new(worker::SystemClock::default()),
            env: serde_json::Map::new(),
            base_dir: PathBuf::from("."),
            scratch_dir: self.dir.path().join("scratch"),
            heartbeat: Duration::from_secs(1),
            playbooks: language::playbook::SharedPlaybooks::default(),
            jumps_max: worker::JUMPS_MAX,
        };
        let stop = CancellationToken::new();
        let worker = worker::Worker::new(config, self.server.transport());
        tokio::spawn(worker.run(stop.clone()));
        stop.drop_guard()
    }
}

/// The run that a response names.
pub(crate) fn execution_id(response: &NodeResponse) -> ExecutionId {
    assert_eq!(response.status, 200, "{response:?}");
    let id = response.body["execution_id"].as_str().expect("an id");
    id.parse().expect("an id is a number")
}
