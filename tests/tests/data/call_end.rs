//! The end of calls of `duckdb`: nothing of a call remains except what it committed.

use std::path::Path;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;
use tools::{DiscardingLogSink, Registry};

use crate::fixture::{failure_error, result_writer, run_call, sql_call, success_value, tool_registry};

const ENDLESS: &str = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 7";

/// The databases that are attached to a database.
async fn attached_databases(tools: &Registry, dir: &Path) -> Value {
    let query = "SELECT database_name AS n FROM duckdb_databases() WHERE NOT internal AND database_name <> 'near'";
    let fields = json!({"database": "near.duckdb"});
    success_value(run_call(tools, sql_call(dir, query, fields)).await)["rows"].clone()
}

async fn wait_for_file(file: &Path) {
    while !file.exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_file_is_open_once_even_if_a_call_has_not_received_its_reply() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let on = || json!({"database": "one.duckdb"});
    let make = "CREATE TABLE t AS SELECT 0 AS n";
    success_value(run_call(&tools, sql_call(dir.path(), make, on())).await);
    let tool = tools.get("duckdb").unwrap();
    let insert = |n: u32| sql_call(dir.path(), &format!("INSERT INTO t VALUES ({n})"), on());
    // Its statements run on their own thread, and no caller awaits them.
    let mut first = tool.call(insert(1), CancellationToken::new(), &DiscardingLogSink);
    assert!(first.as_mut().now_or_never().is_none());
    let count = async || {
        let count = sql_call(dir.path(), "SELECT count(*) AS n FROM t", on());
        success_value(run_call(&tools, count).await)["rows"][0]["n"].clone()
    };
    while count().await != 2 {
        tokio::task::yield_now().await;
    }
    for n in 2..5 {
        success_value(run_call(&tools, insert(n)).await);
    }
    success_value(first.await);
    assert_eq!(count().await, 5);
}

#[tokio::test]
async fn databases_attached_for_a_call_are_detached_however_it_ends() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let other = json!({"database": "other.duckdb"});
    let make = "CREATE TABLE t AS SELECT 7 AS n";
    success_value(run_call(&tools, sql_call(dir.path(), make, other)).await);
    // The database, with all that is attached to it, stays open while a call uses it.
    let stop = CancellationToken::new();
    let tool = tools.get("duckdb").unwrap();
    let near = sql_call(dir.path(), ENDLESS, json!({"database": "near.duckdb"}));
    let long = tool.call(near, stop.clone(), &DiscardingLogSink);
    let far = json!({"type": "duckdb", "database": "other.duckdb"});
    let with = |auth: Value| json!({"database": "near.duckdb", "auth": auth});
    let others = async {
        wait_for_file(&dir.path().join("near.duckdb")).await;
        let using = with(json!({"far": far}));
        let used = run_call(&tools, sql_call(dir.path(), "USE far; SELECT n FROM t", using)).await;
        assert_eq!(success_value(used)["rows"][0]["n"], 7);
        assert_eq!(attached_databases(&tools, dir.path()).await, json!([]));
        let statements = "BEGIN; CREATE TABLE x(n INTEGER); SELECT n FROM far.t";
        let outcome = run_call(&tools, sql_call(dir.path(), statements, with(json!({"far": far})))).await;
        assert_eq!(failure_error(outcome).code, "DUCKDB_TRANSACTION_OPEN");
        assert_eq!(attached_databases(&tools, dir.path()).await, json!([]));
        let fields = json!({"type": "duckdb", "database": "no/such/folder.duckdb"});
        let auth = with(json!({"far": far, "missing": fields}));
        let failed = failure_error(run_call(&tools, sql_call(dir.path(), "SELECT 1", auth)).await);
        assert_eq!(failed.details["alias"], "missing");
        assert_eq!(attached_databases(&tools, dir.path()).await, json!([]));
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(long, others);
    assert_eq!(failure_error(ended).code, "CANCELLED");
}

#[tokio::test]
async fn a_transaction_that_is_left_open_is_an_error() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let on = || json!({"database": "a.duckdb"});
    let make = "CREATE TABLE t(n INTEGER)";
    success_value(run_call(&tools, sql_call(dir.path(), make, on())).await);
    let open = "BEGIN; INSERT INTO t VALUES (1)";
    let open = failure_error(run_call(&tools, sql_call(dir.path(), open, on())).await);
    assert_eq!(open.code, "DUCKDB_TRANSACTION_OPEN");
    let whole = "BEGIN; INSERT INTO t VALUES (2); COMMIT; SELECT n FROM t";
    let whole = success_value(run_call(&tools, sql_call(dir.path(), whole, on())).await);
    assert_eq!(whole["rows"], json!([{"n": 2}]));
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_is_reported_as_such() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let many = "SELECT i, 'some text ' || i AS s FROM range(2000000) r(i)";
    let mut call = sql_call(dir.path(), many, json!({}));
    call.result_writer = Some(results::ResultWriter {
        bytes_max: 200_000,
        ..result_writer(dir.path())
    });
    let failed = failure_error(run_call(&tools, call).await);
    assert_eq!(failed.kind, model::outcome::ErrorKind::Storage, "{failed:?}");
}

#[tokio::test]
async fn a_server_is_only_reached_by_attaching_it() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    for text in [
        "SELECT * FROM postgres_scan('dbname=noetl', 'noetl', 'command')",
        "SELECT * FROM \"POSTGRES_SCAN_pushdown\"('dbname=noetl', 'noetl', 'command')",
        "CALL postgres_attach('dbname=noetl')",
    ] {
        let refused = failure_error(run_call(&tools, sql_call(dir.path(), text, json!({}))).await);
        assert_eq!(refused.code, "DATABASE_FORBIDDEN", "{text}");
    }
}
