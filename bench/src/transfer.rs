//! Transfers a million rows between Postgres, DuckDB and Parquet, next to raw `COPY` of the same rows in the same run.

use std::path::Path;

use futures_util::{SinkExt as _, TryStreamExt as _};
use integrations::DuckdbConfig;
use model::outcome::Outcome;
use serde_json::{Value, json};
use tests::peers::{PostgresServer, TestDatabase};
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, Registry};

use crate::figure::{Figure, Scale};
use crate::raw_limits::now;

const ROWS: u32 = 1_000_000;

/// Measures everything.
pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let rows = scale.scaled(ROWS);
    let server = PostgresServer::private();
    let database = server.fresh_database();
    let client = connect(&database).await?;
    let sql = format!(
        "CREATE TABLE big AS SELECT i::bigint AS id, 'name number ' || i AS name, i / 7.0::float8 AS price, \
         TIMESTAMP '2024-01-01' + i * INTERVAL '1 second' AS at FROM generate_series(1, {rows}) i; \
         CREATE TABLE raw (LIKE big); CREATE TABLE back (LIKE big); CREATE TABLE again (LIKE big)"
    );
    client.batch_execute(&sql).await?;
    let (raw_copy_out, raw_copy_in) = measure_raw_copy(&client, &connect(&database).await?, rows).await?;
    let dir = tempfile::tempdir()?;
    let tools = create_tools_with_table(dir.path()).await?;
    let auth = json!({"dsn": database.url(), "sslmode": "disable"});
    let postgres = |table: &str| json!({"kind": "postgres", "table": table, "auth": auth});
    let duckdb = json!({"kind": "duckdb", "database": "x.duckdb", "table": "t"});
    let parquet = json!({"uri": "file://x.parquet"});
    let mut figures = Vec::new();
    for (work, source, target, raw) in [
        (
            "Postgres to DuckDB, next to raw COPY TO",
            postgres("big"),
            duckdb.clone(),
            raw_copy_out,
        ),
        (
            "Postgres to Parquet, next to raw COPY TO",
            postgres("big"),
            parquet.clone(),
            raw_copy_out,
        ),
        (
            "DuckDB to Postgres, next to raw COPY FROM",
            duckdb,
            postgres("back"),
            raw_copy_in,
        ),
        (
            "Parquet to Postgres, next to raw COPY FROM",
            parquet,
            postgres("again"),
            raw_copy_in,
        ),
    ] {
        let start = now();
        let moved_rows = run_transfer(&tools, dir.path(), source, target).await?;
        anyhow::ensure!(
            moved_rows == u64::from(rows),
            "transferred {moved_rows} rows, expected {rows}"
        );
        figures.push(Figure {
            workload: format!("transfer of {rows} rows: {work}"),
            value: f64::from(rows) / start.elapsed().as_secs_f64(),
            unit: "/s",
            target: "",
            raw_limit: Some(raw),
        });
    }
    figures.push(Figure {
        workload: "transfer: peak memory of all four, with DuckDB".to_owned(),
        value: peak_megabytes()?,
        unit: "MB",
        target: "does not grow with the rows",
        raw_limit: None,
    });
    Ok(figures)
}

/// Creates the tools, and a table in `DuckDB` for them to fill.
async fn create_tools_with_table(dir: &Path) -> anyhow::Result<Registry> {
    let config = tools::Config {
        scratch_dir: dir.to_owned(),
        ..tools::Config::default()
    };
    let duckdb = DuckdbConfig {
        library: Some(tests::peers::duckdb()),
        ..DuckdbConfig::default()
    };
    let tools = integrations::build_registry(
        config,
        integrations::Config {
            duckdb,
            ..integrations::Config::default()
        },
    );
    let mut create_table = Call::new("duckdb");
    dir.clone_into(&mut create_table.site.base_dir);
    create_table.fields = into_map(json!({"database": "x.duckdb"}));
    let table = "CREATE TABLE t (id BIGINT, name TEXT, price DOUBLE, \"at\" TIMESTAMP)".to_owned();
    let pieces = vec![vec![language::template::Piece::Text(table)]];
    create_table.pieces.insert("command".to_owned(), pieces);
    run_call(&tools, create_table).await?;
    Ok(tools)
}

async fn connect(database: &TestDatabase) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Rows per second of raw `COPY` from and to the server.
async fn measure_raw_copy(from: &Client, to: &Client, rows: u32) -> anyhow::Result<(f64, f64)> {
    let start = now();
    let pieces: Vec<bytes::Bytes> = from.copy_out("COPY big TO STDOUT").await?.try_collect().await?;
    let out = f64::from(rows) / start.elapsed().as_secs_f64();
    let start = now();
    let sink = to.copy_in("COPY raw FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    for part in pieces.chunks(1_000) {
        sink.send(bytes::Bytes::from(part.concat())).await?;
    }
    sink.as_mut().finish().await?;
    Ok((out, f64::from(rows) / start.elapsed().as_secs_f64()))
}

async fn run_transfer(tools: &Registry, dir: &Path, source: Value, target: Value) -> anyhow::Result<u64> {
    let mut call = Call::new("transfer");
    call.site.base_dir = dir.to_owned();
    call.fields = into_map(json!({"source": source, "target": target}));
    let result = run_call(tools, call).await?;
    let rows = result["rows_transferred"].as_u64();
    rows.ok_or_else(|| anyhow::anyhow!("{result}"))
}

async fn run_call(tools: &Registry, call: Call) -> anyhow::Result<Value> {
    let tool = tools.get(call.kind.as_str()).expect("the kind is built in");
    match tool.call(call, CancellationToken::new(), &DiscardingLogSink).await {
        Outcome::Ok(success) => Ok(success.result),
        Outcome::Error(failure) => anyhow::bail!("{}", failure.error.message),
    }
}

fn into_map(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

fn peak_megabytes() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.unwrap_or(0.0) / 1024.0)
}
