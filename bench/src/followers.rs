//! What followers of one busy run cost the server: processor time per event without and with up to 50 of them, and memory.

use anyhow::Context as _;
use futures_util::future::try_join_all;
use serde_json::json;
use wire::Client;

use crate::cluster::BenchCluster;
use crate::figure::{Figure, Scale};
use crate::workloads::loop_over;

/// Numbers of followers that are compared.
const FOLLOWERS: [usize; 4] = [0, 1, 10, 50];
/// Iterations of the followed loop; each has several events.
const ITERATIONS: u32 = 20_000;
/// Clock ticks per second of the processor times in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measures the server's processor time per event for each number of followers.
pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let cluster = BenchCluster::start_embedded().await?;
    let path = cluster.register(&loop_over("{kind: noop}")).await?;
    let mut figures = Vec::new();
    let mut alone = None;
    for followers in FOLLOWERS {
        let before = processor_seconds(cluster.server_pid())?;
        let id = cluster.submit(&path, &json!({"n": scale.scaled(ITERATIONS)})).await?;
        let streams = (0..followers).map(|_| follow(&cluster.client, &id));
        let (followed, ended) = tokio::join!(try_join_all(streams), cluster.wait_for_run(&id));
        followed?;
        ended?;
        let used = processor_seconds(cluster.server_pid())? - before;
        let status: serde_json::Value = cluster.client.get(&format!("/api/executions/{id}/status")).await?;
        let events = status["seq"].as_f64().context("a run has a number of events")?;
        let per_event = used / events * 1e6;
        figures.push(Figure {
            workload: format!("{followers} followers of one run: server processor time per event"),
            value: per_event,
            unit: "us",
            target: "grows by at most the bytes that are sent; raw is without followers",
            raw_limit: alone,
        });
        alone.get_or_insert(per_event);
    }
    figures.push(Figure {
        workload: "server memory after 50 followers of one run".to_owned(),
        value: cluster.server_megabytes()?,
        unit: "MB",
        target: "at most 200",
        raw_limit: None,
    });
    Ok(figures)
}

/// Reads the stream of a run to its end.
async fn follow(client: &Client, id: &str) -> anyhow::Result<()> {
    let path = format!("/api/executions/{id}/stream");
    let mut stream = client.open_event_stream(&path, None).await?;
    while stream.chunk().await?.is_some() {}
    Ok(())
}

/// Processor time that a process has used.
fn processor_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may contain spaces; the fields after it are numbered from 3.
    let (_, fields) = stat.rsplit_once(')').context("the state of the server has a name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = (ticks(14), ticks(15));
    let ticks = user.zip(system).map(|(user, system)| user + system);
    Ok(ticks.context("the state of the server has its processor time")? / TICKS_PER_SECOND)
}
