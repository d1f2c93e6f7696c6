//! Lists of a store with a million runs, next to a lookup by primary key in the same run.
//!
//! The runs are inserted into the tables that lists read, without logs: lists read nothing else, and a million runs would
//! take an hour. They are spread over 30 days, over 50 playbooks of very different frequency, and have two labels each.

use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, Name};
use model::labels::Labels;
use model::status::RunStatus;
use model::time::Time;
use store::{ExecutionFilter, ExecutionSearch, PostgresOptions, PostgresStore, PostgresUrl, SqliteStore, Store};
use tests::peers::PostgresServer;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::figure::{Figure, Scale, median};
use crate::raw_limits::now;

/// Number of runs.
const RUNS: u32 = 1_000_000;
/// Number of calls of each kind.
const CALLS: usize = 60;
/// Number of counted runs, as in the API.
const COUNTED_RUNS: usize = 20_001;

/// The columns of run `n` before `now` (a time in microseconds), for both databases. `spread` is the time between two runs.
/// IDs are 22 bits wider than the milliseconds since 2025.
const COLUMNS: &str = "(((NOW - n * SPREAD) / 1000 - 1735689600000) * 4194304),
    4,
    CASE WHEN n % 10000 = 7 THEN 'RUNNING' WHEN n % 50 = 3 THEN 'FAILED' WHEN n % 200 = 5 THEN 'CANCELLED' ELSE 'COMPLETED' END,
    FALSE, 1, 'playbook', 'demo/p' || ((n % 7919) * (n % 7919) * 50 / (7919 * 7919)), 1, 'hash',
    NOW - n * SPREAD,
    CASE WHEN n % 10000 = 7 THEN NULL ELSE NOW - n * SPREAD + 1000000 + n % 60000000 END,
    CASE WHEN n % 50 = 3 THEN 'CODE_' || (n / 50 % 20) || ': a task failed' ELSE NULL END";

const NAMES: &str =
    "execution_id, version, status, cancelling, generation, name, path, playbook_version, hash, started_at,
    finished_at, error";

/// Time between two runs.
fn spread_micros(runs: u32) -> i64 {
    30 * 24 * 3_600 * 1_000_000 / i64::from(runs)
}

/// The statements that insert the runs and their labels.
fn fill_statements(schema: &str, source: &str, now: i64, runs: u32) -> [String; 3] {
    let columns = COLUMNS
        .replace("NOW", &now.to_string())
        .replace("SPREAD", &spread_micros(runs).to_string());
    let label = |key: &str, value: &str| {
        format!(
            "INSERT INTO {schema}execution_label (execution_id, key, value)
             SELECT execution_id, '{key}', {value} FROM {schema}execution"
        )
    };
    [
        format!("INSERT INTO {schema}execution ({NAMES}) SELECT {columns} FROM {source}"),
        label("team", "'t' || (started_at / 10000000 % 10)"),
        label("env", "CASE WHEN status = 'CANCELLED' THEN 'test' ELSE 'prod' END"),
    ]
}

/// Measures lists on SQLite.
pub(crate) fn measure_sqlite(runtime: &Runtime, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let runs = scale.scaled(RUNS);
    let dir = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(dir.path())?);
    let db = rusqlite::Connection::open(dir.path().join("noetl.db"))?;
    let source = format!(
        "(WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < {runs}) SELECT n FROM numbers)"
    );
    for statement in fill_statements("", &source, store.now().0, runs) {
        db.execute_batch(&statement)?;
    }
    runtime.block_on(measure_lists(&*store, "SQLite", runs))
}

/// Measures lists on Postgres.
pub(crate) async fn measure_postgres(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let runs = scale.scaled(RUNS);
    let server = PostgresServer::private();
    let database = server.fresh_database();
    let options = PostgresOptions::new(PostgresUrl::new(database.url()));
    let store = PostgresStore::open(options).await?;
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    let connection = tokio::spawn(connection);
    let source = format!("(SELECT g::bigint AS n FROM generate_series(1, {runs}) AS g) AS numbers");
    for statement in fill_statements("noetl.", &source, store.now().0, runs) {
        client.batch_execute(&statement).await?;
    }
    client.batch_execute("VACUUM ANALYZE").await?;
    let figures = measure_lists(&store, "Postgres", runs).await;
    connection.abort();
    figures
}

/// A list that is measured.
struct MeasuredList {
    name: &'static str,
    filter: ExecutionFilter,
}

fn list(name: &'static str, filter: ExecutionFilter) -> MeasuredList {
    MeasuredList { name, filter }
}

/// The start of the hours before now.
fn hours_ago(store: &dyn Store, hours: u64) -> Time {
    store.now().before(Duration::from_secs(hours * 3_600))
}

fn lists_by_status(store: &dyn Store) -> Vec<MeasuredList> {
    let all = ExecutionFilter::default;
    let of = |statuses: &[RunStatus]| ExecutionFilter {
        statuses: statuses.to_vec(),
        ..all()
    };
    let rare = vec![Name::from("demo/p49")];
    let of_rare = |filter: ExecutionFilter| ExecutionFilter {
        paths: rare.clone(),
        ..filter
    };
    let old = ExecutionFilter {
        since: Some(hours_ago(store, 11 * 24)),
        until: Some(hours_ago(store, 10 * 24)),
        ..all()
    };
    vec![
        list("all", all()),
        list("failed or cancelled", of(&[RunStatus::Failed, RunStatus::Cancelled])),
        list("running, rare", of(&[RunStatus::Running])),
        list("paused, none", of(&[RunStatus::Paused])),
        list("a rare playbook", of_rare(all())),
        list("failed runs of a rare playbook", of_rare(of(&[RunStatus::Failed]))),
        list("of 10 days ago", old),
    ]
}

fn lists_by_label(store: &dyn Store) -> anyhow::Result<Vec<MeasuredList>> {
    let all = ExecutionFilter::default;
    let mut team = Labels::default();
    team.insert("team", "t3")?;
    let mut both = team.clone();
    both.insert("env", "test")?;
    let labelled = |labels: &Labels| ExecutionFilter {
        labels: labels.clone(),
        ..all()
    };
    let recent_failures = ExecutionFilter {
        statuses: vec![RunStatus::Failed],
        since: Some(hours_ago(store, 24)),
        ..labelled(&team)
    };
    let search = ExecutionSearch {
        error_code: Some("CODE_7".to_owned()),
        ..ExecutionSearch::default()
    };
    Ok(vec![
        list("by label", labelled(&team)),
        list("by two labels", labelled(&both)),
        list("failed, by label, last 24 h", recent_failures),
        list("by error code", ExecutionFilter { search, ..all() }),
    ])
}

async fn measure_lists(store: &dyn Store, backend: &str, runs: u32) -> anyhow::Result<Vec<Figure>> {
    let first = store
        .executions(&ExecutionFilter {
            limit: 1_000,
            ..ExecutionFilter::default()
        })
        .await?;
    let raw = measure_lookups(store, &first.iter().map(|row| row.id).collect::<Vec<_>>()).await?;
    let mut figures = Vec::new();
    let mut lists = lists_by_status(store);
    lists.extend(lists_by_label(store)?);
    for list in lists {
        let filter = ExecutionFilter {
            limit: 51,
            ..list.filter.clone()
        };
        let page = measure_calls(async || {
            let rows = store.executions(&filter).await?;
            let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
            store.labels(&ids).await?;
            Ok(())
        });
        let page = page.await?;
        let counted = ExecutionFilter {
            limit: COUNTED_RUNS,
            ..list.filter
        };
        let counts = measure_calls(async || {
            store
                .execution_facets(&counted)
                .await
                .map(drop)
                .map_err(anyhow::Error::from)
        })
        .await?;
        for (what, value) in [("page", page), ("counts", counts)] {
            figures.push(Figure {
                workload: format!("{backend}, {runs} runs, {}: {what}, p95", list.name),
                value,
                unit: "ms",
                target: "at most 100; raw is a lookup by key",
                raw_limit: Some(raw),
            });
        }
    }
    Ok(figures)
}

/// Median time of a lookup by primary key, in milliseconds.
async fn measure_lookups(store: &dyn Store, ids: &[ExecutionId]) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for id in ids.iter().take(CALLS) {
        let start = now();
        anyhow::ensure!(store.execution(*id).await?.is_some(), "run {id} is missing");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    anyhow::ensure!(!times.is_empty(), "the store has no runs");
    Ok(median(times))
}

/// The 95th percentile of the time of a call, in milliseconds.
async fn measure_calls(call: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let start = now();
        call().await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() * 95 / 100])
}
