//! A cluster for one test: a private Postgres, servers and workers as real processes, and network proxies between them
//! that fail on demand.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use wire::Client;

use crate::e2e::effect_table::EffectTable;
use crate::e2e::process::TestProcess;
use crate::peers::program::{ProgramUser, Watchdog, free_port};
use crate::peers::{FaultProxy, NatsServer, PostgresServer, TestDatabase};

/// Number of processes and slots.
#[derive(Debug, Clone, Copy)]
pub struct ClusterShape {
    /// Number of servers.
    pub servers: usize,
    /// Number of workers.
    pub workers: usize,
    /// Number of slots of each worker.
    pub slots: u32,
}

/// A server and its network proxies.
pub struct ClusterNode {
    /// The process.
    pub process: TestProcess,
    /// Proxy between the server and the database.
    pub store_proxy: FaultProxy,
    /// Proxy between workers or other servers and this server.
    pub server_proxy: FaultProxy,
    address: String,
}

/// All processes; dropping the value stops them. Processes stop before the services they use.
pub struct TestCluster {
    /// The workers.
    pub workers: Vec<TestProcess>,
    /// The servers.
    pub nodes: Vec<ClusterNode>,
    /// The Postgres server.
    pub postgres: PostgresServer,
    /// The NATS server that events are published to.
    pub nats: NatsServer,
    /// The database in which playbooks count their effects.
    pub effect_table: EffectTable,
    database: TestDatabase,
    _watchdog: Watchdog,
    dir: TempDir,
}

impl TestCluster {
    /// Starts the cluster; returns when all servers respond.
    pub async fn start(shape: ClusterShape) -> Self {
        let postgres = tokio::task::spawn_blocking(PostgresServer::private).await;
        let postgres = postgres.expect("Postgres starts");
        let database = postgres.fresh_database();
        let effect_table = EffectTable::open(&postgres).await;
        let nats = NatsServer::private();
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        // If this process is killed, no destructor ends the processes it started.
        let stop = "kill -9 $(cat \"$1\"/*/pid) 2>/dev/null";
        let watch = Watchdog::start(ProgramUser::current(), dir.path(), "", stop);
        let nodes: Vec<ClusterNode> = (0..shape.servers)
            .map(|number| start_node(dir.path(), number, &database, &nats))
            .collect();
        let cluster = Self {
            workers: Vec::new(),
            nodes,
            postgres,
            nats,
            effect_table,
            database,
            _watchdog: watch,
            dir,
        };
        cluster.wait_until_ready().await;
        cluster.with_workers(shape)
    }

    fn with_workers(mut self, shape: ClusterShape) -> Self {
        let servers = self.nodes.iter();
        let servers: Vec<String> = servers
            .map(|node| format!("http://127.0.0.1:{}", node.server_proxy.port()))
            .collect();
        let root = self.dir.path().to_owned();
        self.workers = (0..shape.workers)
            .map(|number| {
                let mut servers = servers.clone();
                let first = number % servers.len();
                servers.rotate_left(first);
                let slots = shape.slots.to_string();
                let args = ["worker", "--server", &servers.join(","), "--slots", &slots];
                TestProcess::start(&root, &format!("worker-{number}"), args.map(str::to_owned).to_vec())
            })
            .collect();
        self
    }

    /// A client of all servers that bypasses the failing network.
    pub fn client(&self) -> Client {
        let servers: Vec<String> = self.nodes.iter().map(|node| node.address.clone()).collect();
        Client::new(&servers, None).expect("server addresses are URLs")
    }

    /// A client of one server that bypasses the failing network.
    pub fn node_client(&self, node: usize) -> Client {
        let server = self.nodes[node].address.clone();
        Client::new(&[server], None).expect("a server address is a URL")
    }

    /// The database URL that bypasses the failing network.
    pub fn database_url(&self) -> String {
        self.database.url()
    }

    /// All processes.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut TestProcess> {
        let servers = self.nodes.iter_mut().map(|node| &mut node.process);
        servers.chain(self.workers.iter_mut())
    }

    /// The output of every process.
    pub fn process_output(&self) -> String {
        let servers = self.nodes.iter().map(|node| &node.process);
        let all = servers.chain(&self.workers);
        let output = all.map(|process| format!("== {}\n{}\n", process.name(), process.output()));
        output.collect::<Vec<_>>().concat()
    }

    /// Waits until every server responds.
    pub async fn wait_until_ready(&self) {
        for node in 0..self.nodes.len() {
            let client = self.node_client(node);
            // A server on a new database creates its tables first.
            while client.get::<Value>("/readyz").await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Writes the output of the processes to a directory, for debugging.
    pub fn save_output(&self, file: &Path) {
        fs::write(file, self.process_output()).expect("the output can be written");
    }
}

fn start_node(root: &Path, number: usize, database: &TestDatabase, nats: &NatsServer) -> ClusterNode {
    let to_store = FaultProxy::start(&database.location());
    let listen = format!("127.0.0.1:{}", free_port());
    let to_server = FaultProxy::start(&listen);
    let store = database.url_at(to_store.port());
    let advertise = format!("http://127.0.0.1:{}", to_server.port());
    let args = [
        "serve",
        "--store",
        &store,
        "--listen",
        &listen,
        "--advertise",
        &advertise,
        "--nats",
        &nats.url(),
    ];
    let process = TestProcess::start(root, &format!("server-{number}"), args.map(str::to_owned).to_vec());
    ClusterNode {
        process,
        store_proxy: to_store,
        server_proxy: to_server,
        address: format!("http://{listen}"),
    }
}
