//! Tests of the `sqlite` tool against real files.

use std::path::Path;
use std::time::Duration;

use language::template::Piece;
use model::outcome::{ErrorKind, Outcome};
use serde_json::{Value, json};

use crate::call::Call;
use crate::sqlite::SqliteTool;
use crate::testing::{command_call, expect_error, expect_result, run_tool};

fn sqlite_call(text: &str, folder: &Path) -> Call {
    let mut call = command_call("sqlite", text, folder);
    call.fields.insert("database".to_owned(), json!("test.db"));
    call
}

async fn run_in_memory(text: &str) -> Outcome {
    let mut call = command_call("sqlite", text, Path::new("/tmp"));
    call.fields.insert("database".to_owned(), json!(":memory:"));
    run_tool(&SqliteTool::new(Vec::new()), call).await
}

#[tokio::test]
async fn a_file_persists_between_calls() {
    let folder = tempfile::tempdir().unwrap();
    let tool = SqliteTool::new(Vec::new());
    let result = sqlite_call(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b); INSERT INTO t (b) VALUES ('x'), ('y') RETURNING a;",
        folder.path(),
    );
    let result = expect_result(run_tool(&tool, result).await);
    assert_eq!(result["rows"], json!([{"a": 1}, {"a": 2}]));
    assert_eq!(result["affected_rows"], 2);
    assert_eq!(result["command_0"]["row_count"], 0);
    assert_eq!(result["command_1"]["row_count"], 2);
    let read = expect_result(run_tool(&tool, sqlite_call("SELECT a, b FROM t ORDER BY a", folder.path())).await);
    assert_eq!(read["columns"], json!(["a", "b"]));
    assert_eq!(read["rows"][1], json!({"a": 2, "b": "y"}));
    assert_eq!(read["row_count"], 2);
}

#[tokio::test]
async fn every_type_is_returned_as_json() {
    let read = expect_result(
        run_in_memory("SELECT 1 AS i, 1.5 AS r, 'x' AS t, NULL AS n, x'6869' AS b, 2 AS i, 9e999 AS inf").await,
    );
    assert_eq!(
        read["rows"][0],
        json!({"i": 1, "r": 1.5, "t": "x", "n": null, "b": "aGk=", "i_2": 2, "inf": null})
    );
}

#[tokio::test]
async fn values_and_params_are_bound() {
    let mut call = command_call("sqlite", "", Path::new("/tmp"));
    call.fields = json!({"database": ":memory:", "params": ["p", {"k": 1}]})
        .as_object()
        .unwrap()
        .clone();
    let evil = Piece::Value(json!("'; DROP TABLE t; --"));
    let pieces = vec![
        Piece::Text("SELECT ? AS a, ".to_owned()),
        evil.clone(),
        Piece::Text(" AS b, '".to_owned()),
        evil,
        Piece::Text("' AS c, ? AS d, ".to_owned()),
        Piece::Value(json!(true)),
        Piece::Text(" AS e".to_owned()),
    ];
    call.pieces.insert("command".to_owned(), vec![pieces]);
    let read = expect_result(run_tool(&SqliteTool::new(Vec::new()), call).await);
    assert_eq!(
        read["rows"][0],
        json!({"a": "p", "b": "'; DROP TABLE t; --", "c": "'; DROP TABLE t; --", "d": "{\"k\":1}", "e": 1})
    );
}

#[tokio::test]
async fn a_failed_statement_rolls_back_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let tool = SqliteTool::new(Vec::new());
    expect_result(
        run_tool(
            &tool,
            sqlite_call("CREATE TABLE t (a UNIQUE NOT NULL CHECK (a < 10))", folder.path()),
        )
        .await,
    );
    let twice = sqlite_call("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)", folder.path());
    let outcome = run_tool(&tool, twice).await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::DbConstraint);
    assert_eq!(expect_error(&outcome).details["statement"], 1);
    assert_eq!(outcome.facets().pg, Some(json!({"code": "23505", "sqlstate": "23505"})));
    let count = expect_result(run_tool(&tool, sqlite_call("SELECT count(*) AS n FROM t", folder.path())).await);
    assert_eq!(count["rows"][0]["n"], 0);
    for (statement, state) in [
        ("INSERT INTO t VALUES (NULL)", "23502"),
        ("INSERT INTO t VALUES (11)", "23514"),
        ("SELECT * FROM gone", "42P01"),
        ("SELEC 1", "42601"),
        ("SELECT nope FROM t", "42703"),
    ] {
        let outcome = run_tool(&tool, sqlite_call(statement, folder.path())).await;
        let pg = outcome.facets().pg.clone().unwrap_or(Value::Null);
        assert_eq!(pg["sqlstate"], state, "{statement}: {outcome:?}");
        assert!(!expect_error(&outcome).retryable);
    }
}

#[tokio::test]
async fn an_open_transaction_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let tool = SqliteTool::new(Vec::new());
    let whole = "BEGIN; CREATE TABLE t (a); INSERT INTO t VALUES (1); COMMIT";
    expect_result(run_tool(&tool, sqlite_call(whole, folder.path())).await);
    for open in ["BEGIN", "SAVEPOINT s"] {
        let text = format!("{open}; INSERT INTO t VALUES (2)");
        let outcome = run_tool(&tool, sqlite_call(&text, folder.path())).await;
        assert_eq!(expect_error(&outcome).code, "SQLITE_TRANSACTION_OPEN");
    }
    let count = expect_result(run_tool(&tool, sqlite_call("SELECT count(*) AS n FROM t", folder.path())).await);
    assert_eq!(count["rows"][0]["n"], 1);
}

#[tokio::test]
async fn a_plain_value_can_name_a_table_and_errors_have_lines() {
    let tool = SqliteTool::new(Vec::new());
    let call = |before: &str, after: &str| {
        let mut call = command_call("sqlite", "", Path::new("/tmp"));
        call.fields.insert("database".to_owned(), json!(":memory:"));
        let pieces = vec![
            Piece::Text(before.to_owned()),
            Piece::Value(json!("t")),
            Piece::Text(after.to_owned()),
        ];
        call.pieces.insert("command".to_owned(), vec![pieces]);
        call.site.command_lines = vec![20];
        call
    };
    let result = call("CREATE TABLE t (a);\nSELECT count(*) AS n FROM ", " AS x");
    assert_eq!(expect_result(run_tool(&tool, result).await)["rows"][0]["n"], 0);
    let wrong = run_tool(&tool, call("SELECT 1,\n  2 ", " x")).await;
    let failed = expect_error(&wrong);
    assert!(failed.message.contains("| ident"), "{failed:?}");
    assert_eq!(failed.details["line"], 21, "{failed:?}");
}

#[tokio::test]
async fn an_endless_statement_is_interrupted() {
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c";
    let mut call = command_call("sqlite", endless, Path::new("/tmp"));
    call.fields.insert("database".to_owned(), json!(":memory:"));
    call.timeout.total = Some(Duration::from_millis(100));
    let outcome = run_tool(&SqliteTool::new(Vec::new()), call).await;
    assert_eq!(expect_error(&outcome).code, "TIMEOUT");
}

#[tokio::test]
async fn a_locked_database_is_a_retryable_error() {
    let folder = tempfile::tempdir().unwrap();
    let holder = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    holder.execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE").unwrap();
    let outcome = run_tool(
        &SqliteTool::new(Vec::new()),
        sqlite_call("INSERT INTO t VALUES (1)", folder.path()),
    )
    .await;
    assert_eq!(expect_error(&outcome).code, "SQLITE_BUSY");
    assert!(expect_error(&outcome).retryable);
}

#[tokio::test]
async fn files_of_noetl_are_rejected_under_every_name() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("engine.db");
    rusqlite::Connection::open(&own)
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    std::fs::hard_link(&own, folder.path().join("test.db")).unwrap();
    std::os::unix::fs::symlink(&own, folder.path().join("link.db")).unwrap();
    let tool = SqliteTool::new(vec![own.clone()]);
    let outcome = run_tool(&tool, sqlite_call("SELECT 1", folder.path())).await;
    assert_eq!(expect_error(&outcome).code, "DATABASE_FORBIDDEN");
    let attach = format!(
        "ATTACH '{}' AS e; SELECT * FROM e.t",
        folder.path().join("link.db").display()
    );
    let mut attach = command_call("sqlite", &attach, folder.path());
    attach.fields.insert("database".to_owned(), json!(":memory:"));
    assert_eq!(expect_error(&run_tool(&tool, attach).await).code, "DATABASE_FORBIDDEN");
}

#[tokio::test]
async fn a_database_and_a_command_are_required() {
    let outcome = run_tool(
        &SqliteTool::new(Vec::new()),
        command_call("sqlite", "SELECT 1", Path::new("/tmp")),
    )
    .await;
    assert_eq!(expect_error(&outcome).details["key"], "database");
    assert_eq!(expect_error(&run_in_memory(" -- nothing\n;").await).code, "TOOL_INPUT");
}
