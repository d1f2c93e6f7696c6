//! The workloads of the embedded stack.

use std::collections::HashSet;

use futures_util::future::try_join_all;
use model::event::{EventBody, EventKind};
use model::id::Seq;
use model::raw::RawJson;
use model::status::RunStatus;
use serde_json::json;
use store::Store;
use tokio::runtime::Runtime;
use tokio::sync::broadcast::error::RecvError;

use crate::figure::{Figure, Scale, median};
use crate::raw_limits::now;
use crate::stack::BenchStack;
use crate::{memory, raw_limits, replay, run_lists};

/// Size of a raw row: about what one plain step adds to the log.
pub(crate) const ROW_BYTES: usize = 1_100;

/// One workload.
pub(crate) struct Workload {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Measures it.
    pub(crate) measure: fn(&Runtime, Scale) -> anyhow::Result<Vec<Figure>>,
}

/// All workloads.
pub(crate) const ALL: &[Workload] = &[
    Workload {
        name: "chain",
        measure: measure_chain,
    },
    Workload {
        name: "burst",
        measure: measure_burst,
    },
    Workload {
        name: "loop",
        measure: measure_loops,
    },
    Workload {
        name: "python",
        measure: measure_python_loop,
    },
    Workload {
        name: "submit",
        measure: measure_submit,
    },
    Workload {
        name: "append",
        measure: measure_append,
    },
    Workload {
        name: "lists",
        measure: run_lists::measure_sqlite,
    },
];

pub(crate) fn chain_of(steps: usize) -> String {
    let mut text = String::from("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: chain}\nworkflow:\n");
    for index in 0..steps {
        text.push_str(&format!("- step: s{index}\n  tool: {{kind: noop}}\n"));
        if index + 1 < steps {
            text.push_str(&format!("  next: {{arcs: [{{step: s{}}}]}}\n", index + 1));
        }
    }
    text
}

pub(crate) fn loop_over(tool: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: loop}}\nworkload: {{n: 0}}\nworkflow:\n\
         - step: each\n  loop:\n    spec: {{mode: parallel, max_in_flight: 50}}\n    in: \"{{{{ range(n) }}}}\"\n    \
         iterator: item\n  tool: {tool}\n"
    )
}

fn measure_chain(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let commit = raw_limits::measure_one_row_commit(ROW_BYTES)?.as_secs_f64() * 1e3;
    let rounds = scale.scaled(50);
    let (per_step, bytes) = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let text = chain_of(20);
        stack.run_playbook(&text, None).await?;
        let before = stack.database_bytes()?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let start = now();
            stack.run_playbook(&text, None).await?;
            times.push(start.elapsed().as_secs_f64() * 1e3 / 20.0);
        }
        let bytes = (stack.database_bytes()? - before) as f64 / (f64::from(rounds) * 20.0);
        stack.stop().await?;
        anyhow::Ok((median(times), bytes))
    })?;
    Ok(vec![
        Figure {
            workload: "20-step chain, one at a time: per step".to_owned(),
            value: per_step,
            unit: "ms",
            target: "at most 2 x one raw commit",
            raw_limit: Some(commit),
        },
        Figure {
            workload: "bytes stored per step".to_owned(),
            value: bytes,
            unit: "bytes",
            target: "at most 1 500",
            raw_limit: None,
        },
    ])
}

fn measure_burst(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let count = scale.scaled(200);
    let rate = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let text = chain_of(3);
        stack.run_playbook(&text, None).await?;
        let mut watch = stack.server.subscribe_commits();
        let start = now();
        let ids = try_join_all((0..count).map(|_| stack.submit(&text, None))).await?;
        let mut left: HashSet<_> = ids.into_iter().collect();
        while !left.is_empty() {
            let ended = match watch.recv().await {
                Ok(published) => vec![(published.execution, published.status)],
                // A slow subscriber misses events and reads them from the store.
                Err(RecvError::Lagged(_)) => {
                    let all = store::ExecutionFilter {
                        limit: 1_000,
                        ..store::ExecutionFilter::default()
                    };
                    let rows = stack.store.executions(&all).await?;
                    rows.into_iter().map(|row| (row.id, row.status)).collect()
                }
                Err(RecvError::Closed) => anyhow::bail!("the server stopped"),
            };
            for (id, status) in ended {
                anyhow::ensure!(status != RunStatus::Failed, "a run failed");
                if status == RunStatus::Completed {
                    left.remove(&id);
                }
            }
        }
        let rate = f64::from(count) / start.elapsed().as_secs_f64();
        stack.stop().await?;
        anyhow::Ok(rate)
    })?;
    Ok(vec![Figure {
        workload: format!("{count} executions of 3 steps at once"),
        value: rate,
        unit: "exec/s",
        target: "at least 2 500",
        raw_limit: None,
    }])
}

fn measure_loops(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut wall_seconds = Vec::new();
    let sizes = [1_000, 10_000, 100_000].map(|size| scale.scaled(size));
    for n in sizes {
        let (seconds, bytes, fold) = runtime.block_on(async {
            let stack = BenchStack::start()?;
            let text = loop_over("{kind: noop}");
            stack
                .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": 10}))))
                .await?;
            let before = stack.database_bytes()?;
            let start = now();
            let id = stack
                .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": n}))))
                .await?;
            let seconds = start.elapsed().as_secs_f64();
            let bytes = (stack.database_bytes()? - before) as f64 / f64::from(n);
            let events = stack.store.events(id, Seq(0), usize::MAX).await?;
            let fold = replay::measure_fold_rate(&events)?;
            stack.stop().await?;
            anyhow::Ok((seconds, bytes, fold))
        })?;
        wall_seconds.push(seconds);
        figures.push(Figure {
            workload: format!("parallel loop of {n}, 50 in flight"),
            value: f64::from(n) / seconds,
            unit: "iter/s",
            target: "at least 30 000",
            raw_limit: None,
        });
        if n == sizes[2] {
            figures.push(Figure {
                workload: "bytes stored per iteration".to_owned(),
                value: bytes,
                unit: "bytes",
                target: "at most 500",
                raw_limit: None,
            });
            figures.push(Figure {
                workload: "fold (replay), one core".to_owned(),
                value: fold,
                unit: "events/s",
                target: "at least 400 000",
                raw_limit: None,
            });
        }
    }
    figures.push(Figure {
        workload: format!("loop of {} relative to one of {}: wall time", sizes[2], sizes[1]),
        value: wall_seconds[2] / wall_seconds[1],
        unit: "times",
        target: "at most 12",
        raw_limit: None,
    });
    figures.push(Figure {
        workload: "peak resident memory".to_owned(),
        value: memory::peak_mib(),
        unit: "MiB",
        target: "under 300",
        raw_limit: None,
    });
    Ok(figures)
}

fn measure_python_loop(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let n = scale.scaled(5_000);
    let rate = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let text = loop_over("{kind: python, input: {item: \"{{ item }}\"}, code: \"return item\"}");
        stack
            .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": 50}))))
            .await?;
        let start = now();
        stack
            .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": n}))))
            .await?;
        let rate = f64::from(n) / start.elapsed().as_secs_f64();
        stack.stop().await?;
        anyhow::Ok(rate)
    })?;
    Ok(vec![
        Figure {
            workload: format!("parallel loop of {n} python calls on 2 interpreters"),
            value: rate,
            unit: "iter/s",
            target: "at least 5 000",
            raw_limit: None,
        },
        measure_tool_overhead(runtime, scale)?,
    ])
}

/// Cost of a warm python call compared to a no-op: alternating chains of steps, per step. Each step is one durable
/// write, whatever its tool.
fn measure_tool_overhead(runtime: &Runtime, scale: Scale) -> anyhow::Result<Figure> {
    const STEPS: usize = 20;
    let rounds = scale.scaled(40);
    let noop = chain_of(STEPS);
    let python = noop.replace("{kind: noop}", "{kind: python, code: \"return 1\"}");
    let medians = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            for (text, times) in [&noop, &python].into_iter().zip(&mut times) {
                let start = now();
                stack.run_playbook(text, None).await?;
                let each = start.elapsed().as_secs_f64() * 1e3 / STEPS as f64;
                // The first round starts the interpreter.
                if round > 0 {
                    times.push(each);
                }
            }
        }
        stack.stop().await?;
        anyhow::Ok(times.map(median))
    })?;
    Ok(Figure {
        workload: "python call compared to no-op, p50".to_owned(),
        value: medians[1] - medians[0],
        unit: "ms",
        target: "at most 0.3",
        raw_limit: None,
    })
}

fn measure_submit(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let commit = raw_limits::measure_one_row_commit(ROW_BYTES)?.as_secs_f64() * 1e3;
    let median = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let text = chain_of(1);
        stack.run_playbook(&text, None).await?;
        let mut times = Vec::new();
        for _ in 0..scale.scaled(100) {
            let start = stack.store.now();
            let id = stack.run_playbook(&text, None).await?;
            let events = stack.store.events(id, Seq(0), usize::MAX).await?;
            let started = events.iter().find(|event| event.kind() == EventKind::TaskStarted);
            let started = started.ok_or_else(|| anyhow::anyhow!("no task started"))?;
            anyhow::ensure!(matches!(started.body, EventBody::TaskStarted(_)));
            times.push(started.timestamp.since(start));
        }
        stack.stop().await?;
        anyhow::Ok(median(times))
    })?;
    Ok(vec![Figure {
        workload: "submit to first task, median".to_owned(),
        value: median.as_secs_f64() * 1e3,
        unit: "ms",
        target: "at most 3 x one raw commit",
        raw_limit: Some(commit),
    }])
}

/// Events per second that the whole engine appends, next to raw batched inserts of the same events: one row per event,
/// like in a plain event table, and packed, like in our log.
fn measure_append(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let n = scale.scaled(50_000);
    let (rate, packed, single) = runtime.block_on(async {
        let stack = BenchStack::start()?;
        let text = loop_over("{kind: noop}");
        stack
            .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": 10}))))
            .await?;
        let start = now();
        let id = stack
            .run_playbook(&text, Some(RawJson::from_serializable(&json!({"n": n}))))
            .await?;
        let seconds = start.elapsed().as_secs_f64();
        let events = stack.store.events(id, Seq(0), usize::MAX).await?;
        stack.stop().await?;
        let single: Vec<String> = events.iter().map(|event| event.to_json().to_string()).collect();
        let packed = events.chunks(200).map(|chunk| model::event::pack(chunk).body);
        anyhow::Ok((events.len() as f64 / seconds, packed.collect::<Vec<_>>(), single))
    })?;
    let raw_single = raw_limits::measure_batched_rows(&single, 1_000)?;
    let raw_packed = raw_limits::measure_batched_rows(&packed, 5)? * single.len() as f64 / packed.len() as f64;
    let figure = |work: &str, reach, raw| Figure {
        workload: work.to_owned(),
        value: rate,
        unit: "events/s",
        target: reach,
        raw_limit: Some(raw),
    };
    Ok(vec![
        figure(
            "events appended, whole engine; raw: one row per event",
            "at least 0.4 x raw",
            raw_single,
        ),
        figure(
            "events appended, whole engine; raw: packed rows",
            "as close as possible",
            raw_packed,
        ),
    ])
}
