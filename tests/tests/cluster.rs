//! Servers on Postgres, in one process: what one of them remembers wrongly does not stop a run, and what a run of plain
//! steps costs the database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, WorkerId};
use model::status::RunStatus;
use server::api::{Access, ApiConfig, Listening};
use server::{Control, Server, Submission};
use store::{Postgres, PostgresOptions, PostgresUrl, Store};
use tempfile::TempDir;
use tests::peers::{self, Proxy};
use tokio_postgres::NoTls;
use tokio_util::sync::{CancellationToken, DropGuard};

const LOOK: Duration = Duration::from_millis(50);

const PLAYBOOK: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits}
workflow:
  - step: ask
    tool: {kind: wait, signal: go}
    next: one
  - step: one
    tool: {kind: noop, result: 1}
    next: end
  - step: end
    tool: {kind: noop, result: 2}
";

/// A server that other servers can reach.
struct Node {
    server: Server,
    store: Arc<dyn Store>,
    dir: TempDir,
    _listening: DropGuard,
}

async fn node(url: &str, takes_over: bool) -> Node {
    let listening = Listening::bind("127.0.0.1:0").await.expect("a free port");
    let options = PostgresOptions {
        address: Some(format!("http://{}", listening.address())),
        pool_size: 4,
        ..PostgresOptions::new(PostgresUrl::new(url))
    };
    let store = Postgres::open(options).await.expect("the store opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let secret = store.setting("cluster_secret").await;
    let secret = secret.expect("settings can be read");
    let dir = tempfile::tempdir().expect("there is room for a folder");
    let bodies = results::Local::open(dir.path()).expect("there is room for bodies");
    let server = Server::start(server::Config {
        store: store.clone(),
        bodies: Arc::new(bodies),
        limits: engine::Limits::default(),
        files: None,
        bus: None,
        takes_over,
        keychain: server::KeychainConfig::default(),
        retention: None,
        cluster_secret: secret.clone(),
    });
    let server = server.expect("the server starts");
    let stop = CancellationToken::new();
    let config = ApiConfig {
        access: Access::Open,
        is_loopback: true,
        hosts: Vec::new(),
        logs: Arc::new(
            results::FileLogs::open(dir.path().join("tasks")).expect("there is room for logs"),
        ),
        cluster_secret: secret,
    };
    tokio::spawn(listening.serve(server.clone(), config, None, stop.clone()));
    Node {
        server,
        store,
        dir,
        _listening: stop.drop_guard(),
    }
}

/// A worker of this server, until the value is dropped.
fn employ(node: &Node) -> DropGuard {
    let logs = results::FileLogs::open(node.dir.path().join("logs"));
    let bodies = results::Local::open(node.dir.path()).expect("there is room for bodies");
    let config = worker::Config {
        worker: WorkerId("worker".into()),
        pool: "default".into(),
        kinds: None,
        slots: 2,
        tools: tools::Registry::builtin(tools::Config::default()),
        bodies: Arc::new(bodies),
        logs: Arc::new(logs.expect("there is room for logs")),
        clock: Arc::new(worker::SystemClock::default()),
        env: serde_json::Map::new(),
        base_dir: PathBuf::from("."),
        scratch_dir: node.dir.path().join("scratch"),
        heartbeat: Duration::from_secs(1),
        jumps_max: worker::JUMPS_MAX,
    };
    let stop = CancellationToken::new();
    let worker = worker::Worker::new(config, node.server.transport());
    tokio::spawn(worker.run(stop.clone()));
    stop.drop_guard()
}

/// Waits until the run is driven by this server.
async fn driven_by(node: &Node, id: ExecutionId) {
    let me = node.store.owner().expect("it has a name");
    loop {
        let owner = node.store.owner_of(id).await.ok().flatten();
        if owner.is_some_and(|owner| owner.owner == me) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_a_run_and_does_not_know_it_passes_its_reports_on() {
    let database = peers::Postgres::shared().fresh_database();
    let port = database.url().rsplit(':').next().and_then(|end| {
        let port = end.split('/').next()?;
        port.parse::<u16>().ok()
    });
    let network = Proxy::start(&format!("127.0.0.1:{}", port.expect("a URL has a port")));
    let first = node(&database.url_at(network.port()), false).await;
    let _worker = employ(&first);
    let submission = Submission {
        name: "waits".to_owned(),
        text: PLAYBOOK.to_owned(),
        payload: None,
    };
    let id = first.server.submit(submission).await.expect("it starts");
    // The wait has given its slot up, and the first server remembers the run so.
    while first
        .store
        .open_commands(id)
        .await
        .map_or(1, |open| open.len())
        > 0
        || first
            .store
            .events(id, model::id::Seq(0), 99)
            .await
            .map_or(0, |log| log.len())
            < 8
    {
        tokio::time::sleep(LOOK).await;
    }

    let second = node(&database.url(), true).await;
    network.refuse(true);
    network.cut();
    driven_by(&second, id).await;
    let go = Control::Signal {
        name: "go".into(),
        payload: None,
    };
    let signalled = second.server.control(id, go).await;
    signalled.expect("the second server drives it");
    network.refuse(false);

    assert_eq!(ended(&second, id).await, RunStatus::Completed);
}

/// How a run ends.
async fn ended(node: &Node, id: ExecutionId) -> RunStatus {
    loop {
        let row = node.store.execution(id).await.expect("runs can be read");
        let status = row.expect("the run is there").status;
        if status.is_terminal() {
            return status;
        }
        tokio::time::sleep(LOOK).await;
    }
}

const CHAIN: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: chain}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
    next: two
  - step: two
    tool: {kind: noop, result: 2}
    next: three
  - step: three
    tool: {kind: noop, result: 3}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_commit_of_a_run_of_plain_steps_takes_the_short_way() {
    let database = peers::Postgres::shared().fresh_database();
    let connected = tokio_postgres::connect(&database.url(), NoTls).await;
    let (admin, connection) = connected.expect("the database runs");
    tokio::spawn(connection);
    let track = format!(
        "ALTER DATABASE {} SET track_functions = 'all'",
        database.name()
    );
    admin.batch_execute(&track).await.expect("it can be asked");

    let node = node(&database.url(), false).await;
    let worker = employ(&node);
    let submission = Submission {
        name: "chain".to_owned(),
        text: CHAIN.to_owned(),
        payload: None,
    };
    let id = node.server.submit(submission).await.expect("it starts");
    assert_eq!(ended(&node, id).await, RunStatus::Completed);
    drop((worker, node));

    // The first commit, the end of each step but the last, and the last one. A worker that was not waiting yet is handed the
    // first command by one more, which goes the long way.
    let calls = "SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'noetl' AND funcname = 'append_one'";
    let mut called = 0;
    // Connections tell later what they called, within ten seconds.
    for _ in 0..400 {
        let found = admin.query_opt(calls, &[]).await.expect("it can be asked");
        called = found.map_or(0, |row| row.get::<_, i64>(0));
        if called >= 4 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(called, 4);
}
