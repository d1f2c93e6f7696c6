//! A cluster for one test: a private Postgres, servers and workers as real processes, and network proxies between them
//! that fail on demand.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use wire::Client;

use crate::e2e::process::Process;
use crate::e2e::tally::Tally;
use crate::peers::program::{User, Watch, free_port};
use crate::peers::{Database, Nats, Postgres, Proxy};

/// Number of processes and slots.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of servers.
    pub servers: usize,
    /// Number of workers.
    pub workers: usize,
    /// Number of slots of each worker.
    pub slots: u32,
}

/// A server and its network proxies.
pub struct Node {
    /// The process.
    pub process: Process,
    /// Proxy between the server and the database.
    pub to_store: Proxy,
    /// Proxy between workers or other servers and this server.
    pub to_server: Proxy,
    address: String,
}

/// All processes; dropping the value stops them. Processes stop before the services they use.
pub struct Cluster {
    /// The workers.
    pub workers: Vec<Process>,
    /// The servers.
    pub nodes: Vec<Node>,
    /// The Postgres server.
    pub postgres: Postgres,
    /// The NATS server that events are published to.
    pub nats: Nats,
    /// The database in which playbooks count their effects.
    pub tally: Tally,
    database: Database,
    _watch: Watch,
    dir: TempDir,
}

impl Cluster {
    /// Starts the cluster; returns when all servers respond.
    pub async fn start(shape: Shape) -> Self {
        let postgres = tokio::task::spawn_blocking(Postgres::private).await;
        let postgres = postgres.expect("Postgres starts");
        let database = postgres.fresh_database();
        let tally = Tally::open(&postgres).await;
        let nats = Nats::private();
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        // If this process is killed, no destructor ends the processes it started.
        let stop = "kill -9 $(cat \"$1\"/*/pid) 2>/dev/null";
        let watch = Watch::begin(User::own(), dir.path(), "", stop);
        let nodes: Vec<Node> = (0..shape.servers)
            .map(|number| node(dir.path(), number, &database, &nats))
            .collect();
        let cluster = Self {
            workers: Vec::new(),
            nodes,
            postgres,
            nats,
            tally,
            database,
            _watch: watch,
            dir,
        };
        cluster.answers().await;
        cluster.with_workers(shape)
    }

    fn with_workers(mut self, shape: Shape) -> Self {
        let servers = self.nodes.iter();
        let servers: Vec<String> = servers
            .map(|node| format!("http://127.0.0.1:{}", node.to_server.port()))
            .collect();
        let root = self.dir.path().to_owned();
        self.workers = (0..shape.workers)
            .map(|number| {
                let mut servers = servers.clone();
                let first = number % servers.len();
                servers.rotate_left(first);
                let slots = shape.slots.to_string();
                let args = ["worker", "--server", &servers.join(","), "--slots", &slots];
                Process::start(
                    &root,
                    &format!("worker-{number}"),
                    args.map(str::to_owned).to_vec(),
                )
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
    pub fn client_of(&self, node: usize) -> Client {
        let server = self.nodes[node].address.clone();
        Client::new(&[server], None).expect("a server address is a URL")
    }

    /// The database URL that bypasses the failing network.
    pub fn database_url(&self) -> String {
        self.database.url()
    }

    /// All processes.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        let servers = self.nodes.iter_mut().map(|node| &mut node.process);
        servers.chain(self.workers.iter_mut())
    }

    /// The output of every process.
    pub fn said(&self) -> String {
        let servers = self.nodes.iter().map(|node| &node.process);
        let all = servers.chain(&self.workers);
        let said = all.map(|process| format!("== {}\n{}\n", process.name(), process.said()));
        said.collect::<Vec<_>>().concat()
    }

    /// Waits until every server responds.
    pub async fn answers(&self) {
        for node in 0..self.nodes.len() {
            let client = self.client_of(node);
            // A server on a new database creates its tables first.
            while client.get::<Value>("/readyz").await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Writes the output of the processes to a directory, for debugging.
    pub fn keep_said(&self, file: &Path) {
        fs::write(file, self.said()).expect("the output can be written");
    }
}

fn node(root: &Path, number: usize, database: &Database, nats: &Nats) -> Node {
    let to_store = Proxy::start(&database.place());
    let listen = format!("127.0.0.1:{}", free_port());
    let to_server = Proxy::start(&listen);
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
    let process = Process::start(
        root,
        &format!("server-{number}"),
        args.map(str::to_owned).to_vec(),
    );
    Node {
        process,
        to_store,
        to_server,
        address: format!("http://{listen}"),
    }
}
