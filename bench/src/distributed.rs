//! Workloads that are measured on a cluster, next to raw Postgres in the same run.

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tests::peers::TestDatabase;
use tokio_postgres::NoTls;

use crate::cluster::{BenchCluster, WorkerPlacement};
use crate::figure::{Figure, Scale, median};
use crate::followers;
use crate::raw_limits::now;
use crate::run_lists;
use crate::workloads::{ROW_BYTES, chain_of, loop_over};

/// Number of chains, after some to warm up.
const ROUNDS: u32 = 50;
const WARM_UP: u32 = 10;
/// Number of raw commits before each chain.
const RAW_COMMITS: usize = 7;

/// Measures all workloads, or the selected ones.
pub(crate) async fn measure(selected: &[&str], scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let is_wanted = |name: &str| selected.is_empty() || selected.iter().any(|part| name.contains(part));
    let mut figures = Vec::new();
    if is_wanted("start") {
        figures.extend(measure_start_up().await?);
    }
    if is_wanted("followers") {
        figures.extend(followers::measure(scale).await?);
    }
    if is_wanted("lists") {
        figures.extend(run_lists::measure_postgres(scale).await?);
    }
    if is_wanted("chain") {
        let cluster = BenchCluster::start(WorkerPlacement::Embedded).await?;
        figures.push(measure_chain(&cluster, "cluster, slots of the server", scale).await?);
    }
    if !["chain", "burst", "loop", "latency", "append"]
        .into_iter()
        .any(is_wanted)
    {
        return Ok(figures);
    }
    let cluster = BenchCluster::start(WorkerPlacement::Separate).await?;
    if is_wanted("chain") {
        figures.push(measure_chain(&cluster, "cluster", scale).await?);
    }
    if is_wanted("burst") {
        figures.push(measure_burst(&cluster, scale).await?);
    }
    if is_wanted("loop") {
        figures.extend(measure_loops(&cluster, scale).await?);
    }
    if is_wanted("latency") {
        figures.extend(measure_latency(&cluster, scale).await?);
    }
    if is_wanted("append") {
        figures.extend(measure_append(&cluster, scale).await?);
    }
    Ok(figures)
}

async fn measure_start_up() -> anyhow::Result<Vec<Figure>> {
    let embedded = BenchCluster::start_embedded().await?;
    let figure = |work: &str, value, unit, reach| Figure {
        workload: work.to_owned(),
        value,
        unit,
        target: reach,
        raw_limit: None,
    };
    Ok(vec![
        figure(
            "`noetl serve` on an empty store: ready after",
            embedded.ready_after.as_secs_f64() * 1e3,
            "ms",
            "at most 150",
        ),
        figure(
            "`noetl serve`, idle: memory",
            embedded.server_megabytes()?,
            "MB",
            "at most 60",
        ),
    ])
}

async fn connect(database: &TestDatabase) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Alternates raw commits of one row with the chain, so that both use the disk in the same state.
struct RawCommits {
    client: tokio_postgres::Client,
    insert: tokio_postgres::Statement,
    times: Vec<f64>,
}

impl RawCommits {
    async fn new(database: &TestDatabase) -> anyhow::Result<Self> {
        let client = connect(database).await?;
        client
            .batch_execute("CREATE TABLE raw (id bigserial PRIMARY KEY, body text)")
            .await?;
        let insert = client.prepare("INSERT INTO raw (body) VALUES ($1)").await?;
        let times = Vec::new();
        Ok(Self { client, insert, times })
    }

    async fn commit(&mut self) -> anyhow::Result<()> {
        let body = "x".repeat(ROW_BYTES);
        let start = now();
        self.client.execute(&self.insert, &[&body]).await?;
        self.times.push(start.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }
}

async fn measure_chain(cluster: &BenchCluster, location: &str, scale: Scale) -> anyhow::Result<Figure> {
    let path = cluster.register(&chain_of(20)).await?;
    let mut raw = RawCommits::new(cluster.database()).await?;
    let mut times = Vec::new();
    for round in 0..WARM_UP + scale.scaled(ROUNDS) {
        for _ in 0..RAW_COMMITS {
            raw.commit().await?;
        }
        let start = now();
        let id = cluster.submit(&path, &json!({})).await?;
        cluster.follow_run(&id, 0).await?;
        if round >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e3 / 20.0);
        }
    }
    Ok(Figure {
        workload: format!("{location}: 20-step chain, one at a time: per step"),
        value: median(times),
        unit: "ms",
        target: "at most 2.5 x one raw Postgres commit",
        raw_limit: Some(median(raw.times)),
    })
}

async fn measure_burst(cluster: &BenchCluster, scale: Scale) -> anyhow::Result<Figure> {
    let path = cluster.register(&chain_of(3).replace("chain", "burst")).await?;
    let id = cluster.submit(&path, &json!({})).await?;
    cluster.follow_run(&id, 0).await?;
    let count = scale.scaled(200);
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let start = now();
        let nothing = json!({});
        let ids = try_join_all((0..count).map(|_| cluster.submit(&path, &nothing))).await?;
        cluster.wait_for_all(&ids).await?;
        best = best.max(f64::from(count) / start.elapsed().as_secs_f64());
    }
    Ok(Figure {
        workload: format!("cluster: {count} executions of 3 steps at once, best of 5"),
        value: best,
        unit: "/s",
        target: "at least 1 000",
        raw_limit: None,
    })
}

async fn measure_loops(cluster: &BenchCluster, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let path = cluster.register(&loop_over("{kind: noop}")).await?;
    let mut figures = Vec::new();
    for total in [1_000, 1_000, 100_000].map(|total| scale.scaled(total)) {
        let start = now();
        let id = cluster.submit(&path, &json!({"n": total})).await?;
        cluster.wait_for_run(&id).await?;
        figures.push(Figure {
            workload: format!("cluster: parallel loop of {total} over two workers"),
            value: f64::from(total) / start.elapsed().as_secs_f64(),
            unit: "/s",
            target: "at least 6 000",
            raw_limit: None,
        });
    }
    // The first loop warms the workers up.
    figures.remove(0);
    Ok(figures)
}

/// Time from `command.issued` to the start of its step, according to the log, on an idle cluster.
async fn measure_latency(cluster: &BenchCluster, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let path = cluster.register(&chain_of(1).replace("chain", "single")).await?;
    let mut times = Vec::new();
    let count = scale.scaled(200);
    for _ in 0..count {
        let id = cluster.submit(&path, &json!({})).await?;
        cluster.follow_run(&id, 0).await?;
        let log: Value = cluster
            .client
            .get(&format!("/api/executions/{id}/events?limit=100"))
            .await?;
        let at = |kind: &str| {
            let events = log["events"].as_array()?;
            let event = events.iter().find(|event| event["event_type"] == kind)?;
            model::time::Time::parse(event["timestamp"].as_str()?)
        };
        if let (Some(issued), Some(started)) = (at("command.issued"), at("step.started")) {
            times.push(started.since(issued).as_secs_f64() * 1e3);
        }
    }
    anyhow::ensure!(
        times.len() > count as usize / 2,
        "the log lacks the times of commands or of step starts"
    );
    times.sort_by(f64::total_cmp);
    let figure = |work: &str, value, reach| Figure {
        workload: format!("cluster: command issued to step started, {work}"),
        value,
        unit: "ms",
        target: reach,
        raw_limit: None,
    };
    Ok(vec![
        figure("p50", times[times.len() / 2], "at most 10"),
        figure("p99", times[times.len() * 99 / 100], "at most 50"),
    ])
}

/// Events per second through the whole engine, next to raw inserts of the same rows.
async fn measure_append(cluster: &BenchCluster, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let path = cluster.register(&loop_over("{kind: noop}")).await?;
    let start = now();
    let total = scale.scaled(50_000);
    let id = cluster.submit(&path, &json!({"n": total})).await?;
    cluster.wait_for_run(&id).await?;
    let took = start.elapsed().as_secs_f64();
    let status: Value = cluster.client.get(&format!("/api/executions/{id}/status")).await?;
    let events = status["seq"].as_f64().unwrap_or(0.0);
    let client = connect(cluster.database()).await?;
    let id: i64 = id.parse()?;
    let rows = client
        .query("SELECT seq_first, seq_last, types::text, body::text FROM noetl.log WHERE execution_id = $1 ORDER BY seq_first", &[&id])
        .await?;
    client
        .batch_execute("CREATE TABLE raw_log (execution_id bigint, seq_first bigint, seq_last bigint, types text, body text, PRIMARY KEY (execution_id, seq_last))")
        .await?;
    let insert = client
        .prepare("INSERT INTO raw_log SELECT 1, * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])")
        .await?;
    let start = now();
    for batch in rows.chunks(64) {
        let first: Vec<i64> = batch.iter().map(|row| row.get(0)).collect();
        let last: Vec<i64> = batch.iter().map(|row| row.get(1)).collect();
        let types: Vec<String> = batch.iter().map(|row| row.get(2)).collect();
        let bodies: Vec<String> = batch.iter().map(|row| row.get(3)).collect();
        client.execute(&insert, &[&first, &last, &types, &bodies]).await?;
    }
    let packed = events / start.elapsed().as_secs_f64();
    client
        .batch_execute(
            "CREATE TABLE raw_event (execution_id bigint, seq bigint, body text, PRIMARY KEY (execution_id, seq))",
        )
        .await?;
    let insert = client
        .prepare("INSERT INTO raw_event SELECT 1, * FROM unnest($1::bigint[], $2::text[])")
        .await?;
    let body = "x".repeat(300);
    let start = now();
    let count = i64::from(scale.scaled(100_000));
    for from in (0..count).step_by(1_000) {
        let seqs: Vec<i64> = (from..count.min(from + 1_000)).collect();
        let bodies = vec![body.as_str(); seqs.len()];
        client.execute(&insert, &[&seqs, &bodies]).await?;
    }
    let single = count as f64 / start.elapsed().as_secs_f64();
    let figure = |work: &str, raw| Figure {
        workload: format!("cluster: events appended, next to {work}"),
        value: events / took,
        unit: "/s",
        target: "at least 0.4 of raw",
        raw_limit: Some(raw),
    };
    Ok(vec![
        figure("raw multi-row inserts, one row per event", single),
        figure("raw inserts of the same packed rows", packed),
    ])
}
