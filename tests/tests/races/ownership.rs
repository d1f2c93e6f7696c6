//! Servers on Postgres, in one process: stale state of one server does not stop a run, and a run of plain steps needs
//! few database calls.

use engine::ControlRequest;
use model::id::ExecutionId;
use model::status::RunStatus;
use server::SubmitRequest;
use tests::peers::FaultProxy;
use tokio_postgres::NoTls;

use crate::node::{POLL_INTERVAL, ServerNode, SharedStoreFixture, start_node, start_node_behind};

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

/// Waits until this server owns the run.
async fn wait_for_owner(node: &ServerNode, id: ExecutionId) {
    let me = node.store.owner().expect("the server has a name");
    loop {
        let owner = node.store.owner_of(id).await.ok().flatten();
        if owner.is_some_and(|owner| owner.owner == me) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_unknowingly_lost_a_run_forwards_its_reports() {
    let shared_store = SharedStoreFixture::database();
    let network = FaultProxy::start(&shared_store.server_address());
    let first = start_node_behind(&shared_store, Some(network.port())).await;
    let _worker = first.start_worker("worker");
    let submission = SubmitRequest {
        name: "waits".to_owned(),
        text: PLAYBOOK.to_owned(),
        payload: None,
        labels: model::labels::Labels::default(),
    };
    let id = first.server.submit(submission).await.expect("the run starts");
    // The wait has released its slot, and the first server has cached the run in this state.
    while first.store.open_commands(id).await.map_or(1, |open| open.len()) > 0
        || first
            .store
            .events(id, model::id::Seq(0), 99)
            .await
            .map_or(0, |log| log.len())
            < 8
    {
        tokio::time::sleep(POLL_INTERVAL).await;
    }

    let second = start_node(&shared_store).await;
    network.set_refusing(true);
    network.cut_connections();
    wait_for_owner(&second, id).await;
    let go = ControlRequest::Signal {
        name: "go".into(),
        payload: None,
    };
    let signalled = second.server.control(id, go).await;
    signalled.expect("the second server owns the run");
    network.set_refusing(false);

    assert_eq!(wait_for_end(&second, id).await, RunStatus::Completed);
}

/// Final status of a run.
async fn wait_for_end(node: &ServerNode, id: ExecutionId) -> RunStatus {
    loop {
        let row = node.store.execution(id).await.expect("runs can be read");
        let status = row.expect("the run exists").status;
        if status.is_terminal() {
            return status;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
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
async fn each_commit_of_a_run_of_plain_steps_uses_the_fast_path() {
    let shared_store = SharedStoreFixture::database();
    let SharedStoreFixture::Database(database) = &shared_store else {
        panic!("the store is a database");
    };
    let connected = tokio_postgres::connect(&database.url(), NoTls).await;
    let (admin, connection) = connected.expect("the database runs");
    tokio::spawn(connection);
    let track = format!("ALTER DATABASE {} SET track_functions = 'all'", database.name());
    admin.batch_execute(&track).await.expect("the database responds");

    let node = start_node(&shared_store).await;
    let worker = node.start_worker("worker");
    let submission = SubmitRequest {
        name: "chain".to_owned(),
        text: CHAIN.to_owned(),
        payload: None,
        labels: model::labels::Labels::default(),
    };
    let id = node.server.submit(submission).await.expect("the run starts");
    assert_eq!(wait_for_end(&node, id).await, RunStatus::Completed);
    drop((worker, node));

    // The first commit, the end of each step but the last, and the last one. If a worker was not waiting yet, one more
    // commit assigns the first command to it.
    let calls = "SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'noetl' AND funcname = 'append_one'";
    let mut called = 0;
    // A connection reports its function calls when it closes, or after at most ten seconds without a query.
    for _ in 0..1_200 {
        let row = admin.query_opt(calls, &[]).await.expect("the database responds");
        called = row.map_or(0, |row| row.get::<_, i64>(0));
        if called >= 4 {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    assert_eq!(called, 4);
}
