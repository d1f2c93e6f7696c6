//! Invariants of a cluster that need real processes: commands of dead workers are reassigned, those of healthy workers
//! are not, and a burst of runs survives the crash of a server.

use std::time::Duration;

use model::event::{Event, EventBody};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::{Value, json};
use store::{PostgresOptions, PostgresUrl, Store as _};
use tests::e2e::{ClusterShape, TestCluster, read_log};
use tokio::task::JoinSet;
use wire::api::{ExecuteResponse, ExecutionPage, ExecutionSummary};
use wire::{CallError, Client};

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A claim lasts this long without a heartbeat; the server notices its loss within two more seconds.
const REOFFER_WAIT: Duration = Duration::from_secs(17);

/// Sleeps longer than a claim lasts without a heartbeat.
const LONG: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long, path: e2e/long}
workflow:
  - step: work
    tool: [{nap: {kind: shell, command: "sleep 25"}}]
"#;

const BURST: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: burst, path: e2e/burst}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
    next: two
  - step: two
    tool: {kind: noop, result: 2}
    next: end
  - step: end
    tool: {kind: noop, result: 3}
";

async fn open_store(cluster: &TestCluster) -> store::PostgresStore {
    let options = PostgresOptions::new(PostgresUrl::new(cluster.database_url()));
    store::PostgresStore::open(options)
        .await
        .expect("the store can be opened")
}

async fn execute(client: &Client, body: &Value) -> ExecutionId {
    loop {
        let started: Result<ExecuteResponse, CallError> = client.post("/api/execute", body).await;
        match started {
            Ok(started) => return started.execution_id,
            Err(error) if error.is_transient() => tokio::time::sleep(POLL_INTERVAL).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until a run has ended; returns its status.
async fn wait_for_end(client: &Client, id: ExecutionId) -> RunStatus {
    loop {
        let run: Result<ExecutionSummary, CallError> = client.get(&format!("/api/executions/{id}/status")).await;
        if let Ok(run) = run
            && run.status.is_terminal()
        {
            return run.status;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn claim_events(log: &[Event]) -> Vec<&Event> {
    let claims = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::CommandClaimed(_)));
    claims.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_killed_worker_is_offered_again_and_work_of_a_live_one_is_not() {
    let shape = ClusterShape {
        servers: 2,
        workers: 2,
        slots: 1,
    };
    let mut cluster = TestCluster::start(shape).await;
    let (client, store) = (cluster.client(), open_store(&cluster).await);
    let body = json!({"playbook": LONG});
    let (first, second) = (execute(&client, &body).await, execute(&client, &body).await);
    // When both claims are in the store, each worker has one command.
    let holder = loop {
        let mut holders = Vec::new();
        for id in [first, second] {
            let open = store.open_commands(id).await.expect("commands can be read");
            holders.extend(open.into_iter().filter_map(|open| open.worker));
        }
        if let [holder, _] = &holders[..] {
            break holder.clone();
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    let pid = |worker: &str| worker.rsplit('-').nth(1).and_then(|pid| pid.parse().ok());
    let dying = pid(&holder.0);
    let worker = cluster.workers.iter_mut().find(|worker| worker.id() == dying);
    let worker = worker.expect("the holder is one of the workers");
    let killed = store.now();
    worker.kill();
    worker.restart();
    assert_eq!(wait_for_end(&client, first).await, RunStatus::Completed);
    assert_eq!(wait_for_end(&client, second).await, RunStatus::Completed);

    let (lost, intact) = (read_log(&store, first).await, read_log(&store, second).await);
    let expired = lost
        .iter()
        .find(|event| matches!(event.body, EventBody::CommandExpired(_)));
    let expired = expired.expect("the log has the lost claim");
    let again = expired.recorded_at.since(killed);
    assert!(again <= REOFFER_WAIT, "reassigned after {again:?}");
    assert_eq!(claim_events(&lost).len(), 2, "the command was claimed again once");
    assert_eq!(
        claim_events(&intact).len(),
        1,
        "a healthy worker keeps a task that takes longer than a claim without heartbeats lasts"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_a_thousand_runs_survives_the_death_of_a_server() {
    const RUNS: usize = 1_000;
    let shape = ClusterShape {
        servers: 2,
        workers: 2,
        slots: 16,
    };
    let mut cluster = TestCluster::start(shape).await;
    let client = cluster.client();
    let register = json!({"content": BURST});
    let registered: Result<Value, CallError> = client.post("/api/catalog/register", &register).await;
    registered.expect("the playbook is valid");
    let mut starts = JoinSet::new();
    for lane in 0..16 {
        let client = client.clone();
        starts.spawn(async move {
            for n in (lane..RUNS).step_by(16) {
                let body = json!({"path": "e2e/burst", "dedup": format!("burst-{n}")});
                execute(&client, &body).await;
            }
        });
    }
    // The crash comes while runs are being started.
    while count_executions(&client, "").await < RUNS / 3 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    cluster.nodes[0].process.kill();
    while count_executions(&client, "").await < RUNS / 2 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    cluster.nodes[0].process.restart();
    while let Some(lane) = starts.join_next().await {
        lane.expect("a lane does not panic");
    }
    while count_executions(&client, "&status=RUNNING").await > 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    assert_eq!(count_executions(&client, "&status=COMPLETED").await, RUNS);
    let store = open_store(&cluster).await;
    let newest = store.executions(&store::ExecutionFilter::default()).await;
    let newest = newest.expect("runs can be listed");
    let log = read_log(&store, newest[0].id).await;
    assert_eq!(log.last().map(|event| event.seq), Some(Seq(log.len() as u64)));
}

/// Number of runs; 0 while no server responds.
async fn count_executions(client: &Client, filter: &str) -> usize {
    let mut count = 0;
    let mut cursor = String::new();
    loop {
        let path = format!("/api/executions?limit=1000{filter}{cursor}");
        let Ok(page) = client.get::<ExecutionPage>(&path).await else {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        };
        count += page.executions.len();
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return count,
        }
    }
}
