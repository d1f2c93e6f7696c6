//! A million rows go from Postgres to DuckDB, to Parquet and back, in memory that does not grow with them.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tests::peers::PostgresServer;
use tokio_postgres::NoTls;

use crate::fixture::{new_call, run_call, sql_call, success_value, tool_registry};

const ROWS: u64 = 1_000_000;
/// DuckDB may take 256 MiB for itself; two chunks of rows and the driver's buffers come on top.
const PEAK_KIB_MAX: u64 = 512 * 1024;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Makes the transfers in a process whose memory nothing else touches.
#[expect(clippy::print_stdout, reason = "the child says what it took")]
async fn run_transfers(url: &str, dir: &Path) {
    let tools = tool_registry(dir);
    let table = "CREATE TABLE t (id BIGINT, name TEXT, price DOUBLE, \"at\" TIMESTAMP)";
    success_value(run_call(&tools, sql_call(dir, table, json!({"database": "x.duckdb"}))).await);
    let auth = json!({"dsn": url, "sslmode": "disable"});
    let postgres = |table: &str| json!({"kind": "postgres", "table": table, "auth": auth});
    let duckdb = json!({"kind": "duckdb", "database": "x.duckdb", "table": "t"});
    let parquet = json!({"uri": "file://x.parquet"});
    for (source, target) in [
        (postgres("big"), duckdb.clone()),
        (postgres("big"), parquet.clone()),
        (duckdb, postgres("back")),
        (parquet, postgres("again")),
    ] {
        let done = success_value(
            run_call(
                &tools,
                new_call("transfer", dir, json!({"source": source, "target": target})),
            )
            .await,
        );
        assert_eq!(done["rows_transferred"], ROWS);
    }
    println!("\nSAID {}", peak_kib());
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the child is told by its environment what it is"
)]
async fn a_million_rows_are_transferred_in_constant_memory() {
    if let (Ok(url), Ok(dir)) = (std::env::var("LARGE_URL"), std::env::var("LARGE_DIR")) {
        return run_transfers(&url, Path::new(&dir)).await;
    }
    let database = PostgresServer::shared().fresh_database();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let create_sql = format!(
        "CREATE TABLE big AS SELECT i::bigint AS id, 'name number ' || i AS name, i / 7.0::float8 AS price, \
         TIMESTAMP '2024-01-01' + i * INTERVAL '1 second' AS at FROM generate_series(1, {ROWS}) i; \
         CREATE TABLE back (LIKE big); CREATE TABLE again (LIKE big)"
    );
    client.batch_execute(&create_sql).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "large::a_million_rows_are_transferred_in_constant_memory",
            "--nocapture",
        ])
        .env("LARGE_URL", database.url())
        .env("LARGE_DIR", dir.path())
        .output()
        .unwrap();
    let mut text = String::from_utf8(child.stdout).unwrap();
    text.push_str(&String::from_utf8_lossy(&child.stderr));
    let peak_line = text.lines().find_map(|line| line.strip_prefix("SAID "));
    let peak: u64 = peak_line.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!(peak < PEAK_KIB_MAX, "{peak} KiB at most");
    for table in ["back", "again"] {
        let same = format!("SELECT count(*) FROM big JOIN {table} USING (id, name, price, at)");
        let same: i64 = client.query_one(&same, &[]).await.unwrap().get(0);
        assert_eq!(u64::try_from(same).unwrap(), ROWS, "{table}");
    }
}
