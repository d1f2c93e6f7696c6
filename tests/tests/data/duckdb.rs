//! `duckdb` with its real library.

use std::time::Duration;

use integrations::DuckdbConfig;
use language::template::Piece;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;
use tools::DiscardingLogSink;

use crate::fixture::{command_call, failure_error, result_writer, run_call, sql_call, success_value, tool_registry};

#[tokio::test]
async fn every_type_has_its_json_form() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let select = "SELECT true AS b, 1::TINYINT AS i8, -5::BIGINT AS i64, 18446744073709551615::UBIGINT AS u64, \
        170141183460469231731687303715884105727::HUGEINT AS huge, 340282366920938463463374607431768211455::UHUGEINT AS uhuge, \
        12.50::DECIMAL(10,2) AS dec, 12345678901234567890.12::DECIMAL(38,2) AS bigdec, 0.1::FLOAT AS f32, 2.5::DOUBLE AS f64, \
        'NaN'::DOUBLE AS nan, 'short' AS text, 'a text that is longer than twelve bytes' AS long, \
        '\\xAA\\x01'::BLOB AS blob, DATE '2024-02-29' AS d, TIME '01:02:03.5' AS t, \
        TIMESTAMP '2024-02-29 01:02:03.000001' AS ts, TIMESTAMPTZ '2024-02-29 01:02:03+02' AS tz, \
        TIMESTAMP_NS '2024-02-29 01:02:03.000000001' AS ns, INTERVAL '1 year 2 days 3 seconds' AS iv, \
        '6ffa0b5d-1f3c-4a0e-9d4f-0123456789ab'::UUID AS u, [1, NULL, 3] AS list, {'a': 1, 'b': [true]} AS st, \
        MAP {'k': 1} AS m, MAP {1: 'x'} AS mi, [1, 2]::INTEGER[2] AS arr, 'one'::ENUM('zero', 'one') AS e, \
        union_value(num := 5) AS un, '1010'::BIT AS bits, '{\"x\": [1]}'::JSON AS j, NULL AS n, \
        [[{'a': 'deep text that is not inline'}]] AS nested, '12:00:00+02'::TIMETZ AS ttz";
    let result = success_value(run_call(&tools, sql_call(dir.path(), select, json!({}))).await);
    let row = &result["rows"][0];
    let expected = json!({
        "b": true, "i8": 1, "i64": -5, "u64": 18_446_744_073_709_551_615_u64,
        "huge": "170141183460469231731687303715884105727", "uhuge": "340282366920938463463374607431768211455",
        "dec": 12.5, "bigdec": "12345678901234567890.12", "f32": 0.1, "f64": 2.5, "nan": "NaN",
        "text": "short", "long": "a text that is longer than twelve bytes", "blob": "qgE=",
        "d": "2024-02-29", "t": "01:02:03.5", "ts": "2024-02-29T01:02:03.000001", "tz": "2024-02-28T23:02:03Z",
        "ns": "2024-02-29T01:02:03.000000001", "iv": "1 year 2 days 00:00:03",
        "u": "6ffa0b5d-1f3c-4a0e-9d4f-0123456789ab", "list": [1, null, 3], "st": {"a": 1, "b": [true]},
        "m": {"k": 1}, "mi": {"1": "x"}, "arr": [1, 2], "e": "one", "un": 5, "bits": "1010",
        "j": {"x": [1]}, "n": null, "nested": [[{"a": "deep text that is not inline"}]], "ttz": "12:00:00+02:00",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&row[key], value, "{key}");
    }
    assert_eq!(result["row_count"], 1);
    let odd = run_call(
        &tools,
        sql_call(dir.path(), "SELECT 12345678901234567890123::VARINT AS v", json!({})),
    )
    .await;
    assert!(failure_error(odd).message.contains("VARCHAR"));
}

#[tokio::test]
async fn a_file_persists_between_calls_and_two_calls_share_it() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let on = json!({"database": "shop.duckdb"});
    let make = "CREATE TABLE t(n INTEGER, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b')";
    let first = success_value(run_call(&tools, sql_call(dir.path(), make, on.clone())).await);
    assert_eq!(
        (&first["affected_rows"], &first["command_0"]["row_count"]),
        (&json!(2), &json!(0))
    );
    let insert = |n: i64| {
        let pieces = vec![
            Piece::Text("INSERT INTO t SELECT ".to_owned()),
            Piece::Value(json!(n)),
            Piece::Text(", 'x' FROM range(1000)".to_owned()),
        ];
        run_call(&tools, command_call(dir.path(), pieces, on.clone()))
    };
    let (first, second) = tokio::join!(insert(3), insert(4));
    assert_eq!(success_value(first)["affected_rows"], 1000);
    assert_eq!(success_value(second)["affected_rows"], 1000);
    let count = success_value(run_call(&tools, sql_call(dir.path(), "SELECT count(*) AS n FROM t", on)).await);
    assert_eq!(count["rows"], json!([{"n": 2002}]));
    let apart = run_call(&tools, sql_call(dir.path(), "SELECT * FROM t", json!({}))).await;
    let failure = failure_error(apart);
    assert_eq!(
        (failure.code.as_str(), &failure.details["sqlstate"]),
        ("DUCKDB_CATALOG", &json!("42P01"))
    );
}

#[tokio::test]
async fn values_are_bound_by_position_and_params_by_number_or_name() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let injected = "'; DROP TABLE t; --";
    let pieces = vec![
        Piece::Text("SELECT ".to_owned()),
        Piece::Value(json!(injected)),
        Piece::Text(" AS a, '<".to_owned()),
        Piece::Value(json!(injected)),
        Piece::Text(">' AS b, $$".to_owned()),
        Piece::Text("{{$$ AS c, n FROM range(3) r(n) WHERE n IN (".to_owned()),
        Piece::Value(json!([0, 2])),
        Piece::Text(") ORDER BY ".to_owned()),
        Piece::Ident(json!("n")),
    ];
    let result = success_value(run_call(&tools, command_call(dir.path(), pieces, json!({}))).await);
    assert_eq!(
        result["rows"][1],
        json!({"a": injected, "b": format!("<{injected}>"), "c": "{{", "n": 2})
    );
    for (text, params) in [
        ("SELECT $1 + $2 AS n", json!([1, 2])),
        ("SELECT ? + ? AS n", json!([1, 2])),
        ("SELECT $a + $b AS n", json!({"a": 1, "b": 2})),
    ] {
        let result = success_value(run_call(&tools, sql_call(dir.path(), text, json!({"params": params}))).await);
        assert_eq!(result["rows"][0]["n"], 3, "{text}");
    }
    let missing = run_call(&tools, sql_call(dir.path(), "SELECT $2", json!({"params": [1]}))).await;
    assert_eq!(failure_error(missing).code, "SQL_BIND");
}

#[tokio::test]
async fn several_statements_are_all_or_none() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let on = json!({"database": "a.duckdb"});
    success_value(
        run_call(
            &tools,
            sql_call(dir.path(), "CREATE TABLE t(n INTEGER PRIMARY KEY)", on.clone()),
        )
        .await,
    );
    let twice = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)";
    let failed = failure_error(run_call(&tools, sql_call(dir.path(), twice, on.clone())).await);
    assert_eq!(failed.code, "DUCKDB_CONSTRAINT");
    assert_eq!(
        (&failed.details["sqlstate"], &failed.details["statement"]),
        (&json!("23505"), &json!(1))
    );
    let count = success_value(run_call(&tools, sql_call(dir.path(), "SELECT count(*) AS n FROM t", on)).await);
    assert_eq!(count["rows"][0]["n"], 0);
    let wrong = failure_error(run_call(&tools, sql_call(dir.path(), "SELEC 1", json!({}))).await);
    assert_eq!(wrong.code, "DUCKDB_SYNTAX");
    let pivot = "CREATE TABLE p AS SELECT * FROM (VALUES ('a', 1), ('b', 2)) v(k, n); PIVOT p ON k USING sum(n)";
    let pivoted = success_value(run_call(&tools, sql_call(dir.path(), pivot, json!({}))).await);
    assert_eq!(pivoted["row_count"], 1);
}

#[tokio::test]
async fn many_rows_are_streamed_to_the_store() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let mut call = sql_call(
        dir.path(),
        "SELECT i, 'some text ' || i AS s FROM range(200000) r(i) ORDER BY i",
        json!({}),
    );
    let result_writer = result_writer(dir.path());
    call.result_writer = Some(result_writer.clone());
    let outcome = run_call(&tools, call).await;
    let model::outcome::Outcome::Ok(success) = outcome else {
        panic!("{outcome:?}")
    };
    let reference = success.reference.unwrap();
    assert_eq!(reference.extracted["row_count"], 200_000);
    let body = result_writer.store.get(&reference).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["rows"][199_999], json!({"i": 199_999, "s": "some text 199999"}));
    let mut broken = sql_call(
        dir.path(),
        "SELECT CASE WHEN i = 190000 THEN error('no') ELSE i::VARCHAR END AS s FROM range(200000) r(i)",
        json!({}),
    );
    broken.result_writer = Some(result_writer);
    let failed = failure_error(run_call(&tools, broken).await);
    assert!(failed.message.contains("no"), "{failed:?}");
}

#[tokio::test]
async fn a_call_ends_when_it_is_stopped_or_too_late() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 7";
    let mut late = sql_call(dir.path(), endless, json!({}));
    late.timeout.total = Some(Duration::from_millis(100));
    assert_eq!(failure_error(run_call(&tools, late).await).code, "TIMEOUT");
    let stop = CancellationToken::new();
    let call = sql_call(dir.path(), endless, json!({"database": "x.duckdb"}));
    let tool = tools.get("duckdb").unwrap();
    let running = tool.call(call, stop.clone(), &DiscardingLogSink);
    tokio::pin!(running);
    let file = dir.path().join("x.duckdb");
    loop {
        tokio::select! {
            biased;
            outcome = &mut running => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => if file.exists() { break },
        }
    }
    stop.cancel();
    assert_eq!(failure_error(running.await).code, "CANCELLED");
    let after = success_value(
        run_call(
            &tools,
            sql_call(dir.path(), "SELECT 1 AS n", json!({"database": "x.duckdb"})),
        )
        .await,
    );
    assert_eq!(after["rows"][0]["n"], 1);
}

#[tokio::test]
async fn files_of_a_result_are_read_and_the_engine_s_own_are_refused() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let file = dir.path().join("rows.json");
    std::fs::write(&file, r#"[{"n": 1}, {"n": 2}]"#).unwrap();
    let pieces = vec![
        Piece::Text("SELECT sum(n) AS n FROM '".to_owned()),
        Piece::Value(json!(file.display().to_string())),
        Piece::Text("'".to_owned()),
    ];
    let result = success_value(run_call(&tools, command_call(dir.path(), pieces, json!({}))).await);
    assert_eq!(result["rows"][0]["n"], 3);
    std::fs::write(dir.path().join("noetl.db"), "x").unwrap();
    let own = dir.path().join("noetl.db").display().to_string();
    for (text, fields) in [
        ("SELECT 1".to_owned(), json!({"database": "noetl.db"})),
        (format!("SELECT * FROM read_blob('{own}')"), json!({})),
        (format!("ATTACH '{own}' AS a"), json!({})),
        ("SELECT * FROM read_text($1)".to_owned(), json!({"params": [own]})),
        (
            "SELECT 1".to_owned(),
            json!({"auth": {"a": {"type": "duckdb", "database": "noetl.db"}}}),
        ),
    ] {
        let refused = failure_error(run_call(&tools, sql_call(dir.path(), &text, fields)).await);
        assert_eq!(refused.code, "DATABASE_FORBIDDEN", "{text}");
    }
}

#[tokio::test]
async fn an_alias_is_attached_for_one_call_and_a_missing_extension_is_named() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let other = json!({"database": "other.duckdb"});
    success_value(run_call(&tools, sql_call(dir.path(), "CREATE TABLE t AS SELECT 7 AS n", other)).await);
    let auth = json!({"far": {"type": "duckdb", "database": "other.duckdb"}});
    let fields = json!({"database": "near.duckdb", "auth": auth});
    for _ in 0..2 {
        let result = success_value(run_call(&tools, sql_call(dir.path(), "SELECT n FROM far.t", fields.clone())).await);
        assert_eq!(result["rows"][0]["n"], 7);
    }
    let bare = json!({"database": "near.duckdb"});
    let failure = failure_error(run_call(&tools, sql_call(dir.path(), "SELECT n FROM far.t", bare)).await);
    assert_eq!(failure.code, "DUCKDB_CATALOG");
    let secret = "a-password-that-nobody-says";
    let auth = json!({"pg": {"type": "postgres", "db_host": "localhost", "db_password": secret}});
    let missing = run_call(&tools, sql_call(dir.path(), "SELECT 1", json!({"auth": auth}))).await;
    let missing = failure_error(missing);
    assert_eq!(missing.code, "DUCKDB_EXTENSION", "{missing:?}");
    assert!(!format!("{missing:?}").contains(secret));
    let named = failure_error(
        run_call(
            &tools,
            sql_call(dir.path(), "SELECT 1", json!({"auth": {"pg": "name"}})),
        )
        .await,
    );
    assert_eq!(named.code, "AUTH_UNRESOLVED");
}

#[tokio::test]
async fn memory_and_threads_are_bounded_by_the_task() {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let query = "SELECT current_setting('memory_limit') AS m, current_setting('threads') AS t";
    let fields = json!({"memory_limit": "64MiB", "threads": 1});
    let result = success_value(run_call(&tools, sql_call(dir.path(), query, fields)).await);
    assert_eq!(result["rows"][0], json!({"m": "64.0 MiB", "t": 1}));
    let wrong = run_call(&tools, sql_call(dir.path(), query, json!({"threads": 0}))).await;
    assert_eq!(failure_error(wrong).code, "TOOL_INPUT");
}

#[tokio::test]
async fn a_missing_library_is_named_with_where_to_get_it() {
    let dir = tempdir().unwrap();
    let config = integrations::Config {
        duckdb: DuckdbConfig {
            library: Some(dir.path().join("libduckdb.so")),
            ..DuckdbConfig::default()
        },
        ..integrations::Config::default()
    };
    let tools = integrations::build_registry(tools::Config::default(), config);
    let missing = failure_error(run_call(&tools, sql_call(dir.path(), "SELECT 1", json!({}))).await);
    assert_eq!(missing.code, "DUCKDB_MISSING");
    assert!(missing.message.contains("NOETL_DUCKDB_LIB"), "{missing:?}");
}
