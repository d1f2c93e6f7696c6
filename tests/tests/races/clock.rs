//! The database's clock jumps while servers run: waits keep their duration, and no worker loses a claim.

use std::time::Duration;

use model::id::{ExecutionId, Seq};
use serde_json::json;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::node::{POLL_INTERVAL, ServerNode, SharedStoreFixture, start_node};

const WAITS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits}
workflow:
  - step: one
    tool: {kind: wait, duration: 8s}
";

const WORKS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: works}
workflow:
  - step: one
    tool: {kind: shell, command: sleep 6}
";

/// How long `WAITS` waits.
const WAIT: Duration = Duration::from_secs(8);

/// How late a wait may end: the server checks once a second, and two cores run many tests.
const LATE_MAX: Duration = Duration::from_secs(3);

/// Maximum difference between the times of two running servers.
const APART_MAX: Duration = Duration::from_secs(1);

/// Shifts the database's clock by this number of hours.
async fn shift_clock(raw: &Client, hours: i64) {
    let function = format!(
        "CREATE OR REPLACE FUNCTION noetl.micros() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {hours} * 3600000000 $$"
    );
    raw.batch_execute(&function).await.expect("the store's clock");
}

/// Waits until a query counts at least one row.
async fn wait_for_rows(raw: &Client, count: &str) {
    while raw.query_one(count, &[]).await.expect("a count").get::<_, i64>(0) == 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn wait_for_heartbeat(raw: &Client) {
    wait_for_rows(
        raw,
        "SELECT count(*) FROM noetl.runtime WHERE abs(clock_offset) > 1000000",
    )
    .await;
}

async fn times_in_log(node: &ServerNode, id: ExecutionId, name: &str) -> usize {
    let events = node.store.events(id, Seq(0), 1_000).await.expect("a log");
    let named = events.iter().filter(|event| event.kind().to_string() == name);
    named.count()
}

async fn check_wait_duration(hours: i64) {
    let shared_store = SharedStoreFixture::database();
    let raw = shared_store.raw_client().await;
    let node = start_node(&shared_store).await;
    node.register("waits", WAITS).await;
    let _worker = node.start_worker("worker");
    let id = node.execute(&json!({"path": "waits"})).await;
    wait_for_rows(&raw, "SELECT count(*) FROM noetl.timer").await;
    let set = Instant::now();

    shift_clock(&raw, hours).await;
    node.wait_for_result(id).await;

    let elapsed = set.elapsed();
    assert!(elapsed + APART_MAX > WAIT, "the wait ended early, after {elapsed:?}");
    assert!(elapsed < WAIT + LATE_MAX, "the wait ended late, after {elapsed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_not_shorter_when_the_databases_clock_jumps_forward() {
    check_wait_duration(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_not_longer_when_the_databases_clock_jumps_back() {
    check_wait_duration(-1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_is_lost_when_the_databases_clock_jumps_forward() {
    let shared_store = SharedStoreFixture::database();
    let raw = shared_store.raw_client().await;
    let node = start_node(&shared_store).await;
    node.register("works", WORKS).await;
    let _worker = node.start_worker("worker");
    let id = node.execute(&json!({"path": "works"})).await;
    wait_for_rows(&raw, "SELECT count(*) FROM noetl.command WHERE worker IS NOT NULL").await;

    shift_clock(&raw, 1).await;
    node.wait_for_result(id).await;

    assert_eq!(times_in_log(&node, id, "command.expired").await, 0);
    assert_eq!(times_in_log(&node, id, "task.started").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_after_a_clock_jump_adopts_the_time_of_the_others() {
    let shared_store = SharedStoreFixture::database();
    let raw = shared_store.raw_client().await;
    let first = start_node(&shared_store).await;
    shift_clock(&raw, 1).await;
    wait_for_heartbeat(&raw).await;

    let second = start_node(&shared_store).await;

    let apart = second.store.now().0.abs_diff(first.store.now().0);
    assert!(Duration::from_micros(apart) < APART_MAX, "{apart} µs apart");
    let processes = second.store.processes().await.expect("the servers");
    assert!(processes.iter().all(|peer| peer.is_alive), "{processes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_databases_clock_counts_after_every_server_has_ended() {
    let shared_store = SharedStoreFixture::database();
    let raw = shared_store.raw_client().await;
    let first = start_node(&shared_store).await;
    let before = first.store.now();
    shift_clock(&raw, 1).await;
    wait_for_heartbeat(&raw).await;
    first.shut_down(&raw).await;

    let second = start_node(&shared_store).await;

    let ahead = second.store.now().since(before);
    assert!(ahead >= Duration::from_secs(3_600), "{ahead:?} ahead");
}
