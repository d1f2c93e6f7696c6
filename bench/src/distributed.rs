//! The work that is measured on a cluster, beside raw Postgres in the same run.

use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tests::peers::Database;
use tokio_postgres::NoTls;

use crate::cluster::Cluster;
use crate::figure::Figure;
use crate::raw::now;
use crate::workloads::{ROW_BYTES, chain_of, loop_over};

/// Everything that is measured.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let mut figures = start_up().await?;
    let cluster = Arc::new(Cluster::start().await?);
    let (_, database) = cluster.database.as_ref().expect("a cluster has a database");
    let commit = raw_commit(database).await?;
    figures.push(chain(&cluster, commit).await?);
    figures.push(burst(&cluster).await?);
    figures.extend(loops(&cluster).await?);
    figures.extend(latency(&cluster).await?);
    figures.extend(append(&cluster, database).await?);
    Ok(figures)
}

async fn start_up() -> anyhow::Result<Vec<Figure>> {
    let embedded = Cluster::embedded().await?;
    let figure = |work: &str, value, unit, reach| Figure {
        work: work.to_owned(),
        value,
        unit,
        reach,
        raw: None,
    };
    Ok(vec![
        figure(
            "`noetl serve` on an empty store: ready after",
            embedded.ready.as_secs_f64() * 1e3,
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

async fn connect(database: &Database) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The median of one-row commits, in milliseconds.
async fn raw_commit(database: &Database) -> anyhow::Result<f64> {
    let client = connect(database).await?;
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS raw (id bigserial PRIMARY KEY, body text)")
        .await?;
    let insert = client.prepare("INSERT INTO raw (body) VALUES ($1)").await?;
    let body = "x".repeat(ROW_BYTES);
    let mut times = Vec::new();
    for _ in 0..400 {
        let begin = now();
        client.execute(&insert, &[&body]).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

async fn chain(cluster: &Cluster, commit: f64) -> anyhow::Result<Figure> {
    let path = cluster.register(&chain_of(20)).await?;
    let mut times = Vec::new();
    for round in 0..60 {
        let begin = now();
        let id = cluster.submit(&path, &json!({})).await?;
        cluster.follow(&id, 0).await?;
        if round >= 10 {
            times.push(begin.elapsed().as_secs_f64() * 1e3 / 20.0);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Figure {
        work: "cluster: 20-step chain, one at a time: per step".to_owned(),
        value: times[times.len() / 2],
        unit: "ms",
        reach: "at most 2.5 x one raw Postgres commit",
        raw: Some(commit),
    })
}

async fn burst(cluster: &Cluster) -> anyhow::Result<Figure> {
    let path = cluster
        .register(&chain_of(3).replace("chain", "burst"))
        .await?;
    let id = cluster.submit(&path, &json!({})).await?;
    cluster.follow(&id, 0).await?;
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let begin = now();
        let nothing = json!({});
        let ids = try_join_all((0..200).map(|_| cluster.submit(&path, &nothing))).await?;
        cluster.wait_for_all(&ids).await?;
        best = best.max(200.0 / begin.elapsed().as_secs_f64());
    }
    Ok(Figure {
        work: "cluster: 200 executions of 3 steps at once, best of 5".to_owned(),
        value: best,
        unit: "/s",
        reach: "at least 1 000",
        raw: None,
    })
}

async fn loops(cluster: &Cluster) -> anyhow::Result<Vec<Figure>> {
    let path = cluster.register(&loop_over("{kind: noop}")).await?;
    let mut figures = Vec::new();
    for total in [1_000_u32, 1_000, 100_000] {
        let begin = now();
        let id = cluster.submit(&path, &json!({"n": total})).await?;
        cluster.wait(&id).await?;
        figures.push(Figure {
            work: format!("cluster: parallel loop of {total} over two workers"),
            value: f64::from(total) / begin.elapsed().as_secs_f64(),
            unit: "/s",
            reach: "at least 6 000",
            raw: None,
        });
    }
    // The first loop warms the workers up.
    figures.remove(0);
    Ok(figures)
}

/// From a command's issue to the begin of its step, by the log, while nothing else runs.
async fn latency(cluster: &Cluster) -> anyhow::Result<Vec<Figure>> {
    let path = cluster
        .register(&chain_of(1).replace("chain", "single"))
        .await?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let id = cluster.submit(&path, &json!({})).await?;
        cluster.follow(&id, 0).await?;
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
        times.len() > 100,
        "the log tells when commands were issued and begun"
    );
    times.sort_by(f64::total_cmp);
    let figure = |work: &str, value, reach| Figure {
        work: format!("cluster: command issued to step begun, {work}"),
        value,
        unit: "ms",
        reach,
        raw: None,
    };
    Ok(vec![
        figure("p50", times[times.len() / 2], "at most 10"),
        figure("p99", times[times.len() * 99 / 100], "at most 50"),
    ])
}

/// Events a second through the whole engine, beside raw inserts of the very same rows.
async fn append(cluster: &Cluster, database: &Database) -> anyhow::Result<Vec<Figure>> {
    let path = cluster.register(&loop_over("{kind: noop}")).await?;
    let begin = now();
    let id = cluster.submit(&path, &json!({"n": 50_000})).await?;
    cluster.wait(&id).await?;
    let took = begin.elapsed().as_secs_f64();
    let status: Value = cluster
        .client
        .get(&format!("/api/executions/{id}/status"))
        .await?;
    let events = status["seq"].as_f64().unwrap_or(0.0);
    let client = connect(database).await?;
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
    let begin = now();
    for batch in rows.chunks(64) {
        let first: Vec<i64> = batch.iter().map(|row| row.get(0)).collect();
        let last: Vec<i64> = batch.iter().map(|row| row.get(1)).collect();
        let types: Vec<String> = batch.iter().map(|row| row.get(2)).collect();
        let bodies: Vec<String> = batch.iter().map(|row| row.get(3)).collect();
        client
            .execute(&insert, &[&first, &last, &types, &bodies])
            .await?;
    }
    let packed = events / begin.elapsed().as_secs_f64();
    client
        .batch_execute("CREATE TABLE raw_event (execution_id bigint, seq bigint, body text, PRIMARY KEY (execution_id, seq))")
        .await?;
    let insert = client
        .prepare("INSERT INTO raw_event SELECT 1, * FROM unnest($1::bigint[], $2::text[])")
        .await?;
    let body = "x".repeat(300);
    let begin = now();
    let count = 100_000_i64;
    for from in (0..count).step_by(1_000) {
        let seqs: Vec<i64> = (from..from + 1_000).collect();
        let bodies = vec![body.as_str(); 1_000];
        client.execute(&insert, &[&seqs, &bodies]).await?;
    }
    let single = count as f64 / begin.elapsed().as_secs_f64();
    let figure = |work: &str, raw| Figure {
        work: format!("cluster: events appended, beside {work}"),
        value: events / took,
        unit: "/s",
        reach: "at least 0.4 of raw",
        raw: Some(raw),
    };
    Ok(vec![
        figure("raw multi-row inserts, a row an event", single),
        figure("raw inserts of the same packed rows", packed),
    ])
}
