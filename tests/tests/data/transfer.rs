//! `transfer` in every direction, between real databases, files and servers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use language::template::Piece;
use serde_json::{Map, Value, json};
use tempfile::tempdir;
use tests::peers::{PostgresServer, S3Server, TestDatabase};
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, Registry};

use crate::fixture::{failure_error, new_call, run_call, sql_call, success_value, tool_registry};

/// A transfer of everything that these ends name.
fn transfer_call(dir: &Path, source: Value, target: Value, options: Value) -> Call {
    let mut fields = options.as_object().unwrap().clone();
    let mut source = source.as_object().unwrap().clone();
    let query = source.remove("query");
    fields.insert("source".to_owned(), source.into());
    fields.insert("target".to_owned(), target);
    let mut call = new_call("transfer", dir, Value::Object(fields));
    if let Some(Value::String(query)) = query {
        call.pieces
            .insert("source.query".to_owned(), vec![vec![Piece::Text(query)]]);
    }
    call
}

fn database_auth(database: &TestDatabase) -> Value {
    json!({"type": "postgres", "dsn": database.url(), "sslmode": "disable"})
}

async fn query(database: &TestDatabase, sql: &str) -> Value {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    if !sql.starts_with("SELECT") {
        client.batch_execute(sql).await.unwrap();
        return Value::Null;
    }
    let sql = format!("SELECT coalesce(json_agg(q), '[]')::text FROM ({sql}) q");
    let row = client.query_one(&sql, &[]).await.unwrap();
    let text: String = row.get(0);
    serde_json::from_str(&text).unwrap()
}

/// The kinds of places rows may be in.
const ENDPOINT_KINDS: [&str; 7] = ["postgres", "sqlite", "duckdb", "csv", "ndjson", "json", "parquet"];

struct TransferFixture {
    dir: tempfile::TempDir,
    tools: Registry,
    database: TestDatabase,
}

impl TransferFixture {
    async fn new() -> Self {
        let dir = tempdir().unwrap();
        let tools = tool_registry(dir.path());
        let database = PostgresServer::shared().fresh_database();
        let table = "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, price DOUBLE PRECISION)";
        query(&database, table).await;
        for kind in ["sqlite", "duckdb"] {
            let mut create_table = sql_call(dir.path(), table, json!({"database": format!("x.{kind}")}));
            create_table.kind = kind.into();
            success_value(run_call(&tools, create_table).await);
        }
        Self { dir, tools, database }
    }

    /// One end at a place.
    fn endpoint(&self, kind: &str) -> Value {
        match kind {
            "postgres" => {
                json!({"kind": "postgres", "table": "t", "auth": database_auth(&self.database)})
            }
            "sqlite" | "duckdb" => {
                json!({"kind": kind, "table": "t", "database": format!("x.{kind}")})
            }
            file => json!({"kind": "file", "uri": format!("file://x.{file}")}),
        }
    }

    async fn run_transfer(&self, source: Value, target: Value, options: Value) -> model::outcome::Outcome {
        run_call(&self.tools, transfer_call(self.dir.path(), source, target, options)).await
    }

    /// What is at a place, as sorted JSON rows read through a file.
    async fn read_rows(&self, kind: &str) -> Vec<Value> {
        let target = json!({"uri": "file://seen.ndjson"});
        success_value(self.run_transfer(self.endpoint(kind), target, json!({})).await);
        let text = std::fs::read_to_string(self.dir.path().join("seen.ndjson")).unwrap();
        let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| row["id"].to_string().trim_matches('"').parse::<i64>().unwrap());
        rows
    }
}

fn rows_as_text(rows: &[Value]) -> Vec<Map<String, Value>> {
    let text = |value: &Value| match value {
        Value::Null => Value::Null,
        Value::Number(number) => number.as_f64().unwrap().to_string().into(),
        Value::String(text) => text.parse::<f64>().map_or(text.clone(), |n| n.to_string()).into(),
        other => other.to_string().into(),
    };
    let row = |row: &Value| {
        row.as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), text(value)))
            .collect()
    };
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn rows_are_transferred_between_all_kinds_of_endpoints() {
    let fixture = TransferFixture::new().await;
    let first = "[{\"id\": 1, \"name\": \"a \\\"b\\\", é\\n\\t\\\\\", \"price\": 1.5},\n {\"id\": 2, \"name\": null, \"price\": 2}, {\"id\": 3, \"name\": \"c\", \"price\": null}]";
    std::fs::write(fixture.dir.path().join("first.json"), first).unwrap();
    let expected: Vec<Value> = serde_json::from_str(first).unwrap();
    for kind in ENDPOINT_KINDS {
        let source = json!({"kind": "file", "uri": "file://first.json"});
        let manner = json!({"mode": "replace", "chunk_size": 2});
        let done = success_value(fixture.run_transfer(source, fixture.endpoint(kind), manner).await);
        assert_eq!(done["rows_transferred"], 3, "to {kind}");
        assert_eq!(done["columns"], json!(["id", "name", "price"]), "to {kind}");
        assert_eq!(
            rows_as_text(&fixture.read_rows(kind).await),
            rows_as_text(&expected),
            "{kind}"
        );
    }
    for from in ENDPOINT_KINDS {
        for to in ENDPOINT_KINDS.iter().filter(|to| **to != from) {
            let done = fixture
                .run_transfer(fixture.endpoint(from), fixture.endpoint(to), json!({"mode": "replace"}))
                .await;
            assert_eq!(success_value(done)["rows_transferred"], 3, "{from} to {to}");
            assert_eq!(
                rows_as_text(&fixture.read_rows(to).await),
                rows_as_text(&expected),
                "{from} to {to}"
            );
        }
    }
}

#[tokio::test]
async fn upsert_replace_append_and_mapping_work_as_documented() {
    let fixture = TransferFixture::new().await;
    let file = fixture.dir.path().join("new.ndjson");
    for kind in ["postgres", "sqlite", "duckdb"] {
        std::fs::write(&file, "{\"n\": 1, \"who\": \"a\"}\n{\"n\": 2, \"who\": \"b\"}\n").unwrap();
        // A path of a JSON list prevents DuckDB from reading the file by itself.
        let source = json!({"kind": "file", "uri": "file://new.ndjson", "path": "x"});
        let mut target = fixture.endpoint(kind);
        target["mapping"] = json!({"id": "n", "name": "who"});
        success_value(fixture.run_transfer(source.clone(), target.clone(), json!({})).await);
        std::fs::write(
            &file,
            "{\"n\": 2, \"who\": \"x\"}\n{\"n\": 2, \"who\": \"B\"}\n{\"n\": 3, \"who\": \"c\"}\n",
        )
        .unwrap();
        let twice = fixture.run_transfer(source.clone(), target.clone(), json!({})).await;
        let refused = failure_error(twice);
        assert!(
            refused.kind == model::outcome::ErrorKind::DbConstraint,
            "{kind}: {refused:?}"
        );
        let upsert = json!({"mode": "upsert", "key": "id"});
        success_value(fixture.run_transfer(source.clone(), target.clone(), upsert).await);
        let names: Vec<Value> = fixture
            .read_rows(kind)
            .await
            .iter()
            .map(|row| row["name"].clone())
            .collect();
        assert_eq!(names, ["a", "B", "c"], "{kind}");
        std::fs::write(&file, "{\"n\": 9, \"who\": \"z\"}\n").unwrap();
        success_value(
            fixture
                .run_transfer(source.clone(), target.clone(), json!({"mode": "replace"}))
                .await,
        );
        assert_eq!(fixture.read_rows(kind).await.len(), 1, "{kind}");
        target["mapping"] = json!({"id": "nothing"});
        let wrong = failure_error(fixture.run_transfer(source.clone(), target.clone(), json!({})).await);
        assert_eq!(wrong.code, "TRANSFER_COLUMN", "{kind}");
        let keyless = failure_error(fixture.run_transfer(source, target, json!({"mode": "upsert"})).await);
        assert_eq!(keyless.code, "TOOL_INPUT", "{kind}");
    }
}

#[tokio::test]
async fn a_broken_row_or_a_wrong_table_leaves_the_target_as_it_was() {
    let fixture = TransferFixture::new().await;
    let file = fixture.dir.path().join("bad.csv");
    for kind in ["postgres", "sqlite", "duckdb", "ndjson"] {
        std::fs::write(&file, "id,name\n1,a\n").unwrap();
        let source = json!({"kind": "file", "uri": "file://bad.csv", "path": "x"});
        success_value(
            fixture
                .run_transfer(source.clone(), fixture.endpoint(kind), json!({}))
                .await,
        );
        for text in ["id,name\n5,e\n6\n", "id,name\n5,e\n6,\"open\n"] {
            std::fs::write(&file, text).unwrap();
            let broken = failure_error(
                fixture
                    .run_transfer(
                        source.clone(),
                        fixture.endpoint(kind),
                        json!({"chunk_size": 1, "mode": "replace"}),
                    )
                    .await,
            );
            assert_eq!(broken.code, "TRANSFER_ROW", "{kind}: {broken:?}");
            assert_eq!(fixture.read_rows(kind).await.len(), 1, "{kind}");
        }
    }
    std::fs::write(&file, "id,name\nseven,a\n").unwrap();
    for kind in ["postgres", "duckdb"] {
        let source = json!({"kind": "file", "uri": "file://bad.csv", "path": "x"});
        failure_error(
            fixture
                .run_transfer(source.clone(), fixture.endpoint(kind), json!({}))
                .await,
        );
        let mut target = fixture.endpoint(kind);
        target["table"] = "nowhere".into();
        let wrong = failure_error(fixture.run_transfer(source, target, json!({})).await);
        assert!(
            matches!(wrong.code.as_str(), "PG_42P01" | "DUCKDB_CATALOG"),
            "{wrong:?}"
        );
        assert_eq!(fixture.read_rows(kind).await.len(), 1, "{kind}");
    }
    let source = json!({"kind": "file", "uri": "file://missing.csv"});
    assert_eq!(
        failure_error(
            fixture
                .run_transfer(source, fixture.endpoint("sqlite"), json!({}))
                .await
        )
        .code,
        "FILE_NOT_FOUND"
    );
}

#[tokio::test]
async fn every_type_of_postgres_round_trips_through_duckdb() {
    let fixture = TransferFixture::new().await;
    let columns = "b BOOLEAN, i INTEGER, n NUMERIC(30, 4), f DOUBLE PRECISION, s TEXT, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID, iv INTERVAL";
    query(
        &fixture.database,
        &format!("CREATE TABLE a ({columns}, j JSONB, by BYTEA, l INTEGER[])"),
    )
    .await;
    query(&fixture.database, "INSERT INTO a VALUES (true, 5, 12345678901234567890.1234, 0.1, 'x', '2024-02-29', '2024-02-29 01:02:03.5', \
        '2024-02-29 01:02:03+02', '6ffa0b5d-1f3c-4a0e-9d4f-0123456789ab', '1 year 2 days 00:00:03', '{\"k\": [1]}', '\\x00ff', '{1,NULL,3}'); INSERT INTO a (b) VALUES (NULL)").await;
    query(&fixture.database, "CREATE TABLE back (LIKE a)").await;
    let create_sql = format!("CREATE TABLE a ({columns}, j JSON, \"by\" BLOB, l INTEGER[])");
    success_value(
        run_call(
            &fixture.tools,
            sql_call(fixture.dir.path(), &create_sql, json!({"database": "x.duckdb"})),
        )
        .await,
    );
    let postgres = |table: &str| json!({"kind": "postgres", "table": table, "auth": database_auth(&fixture.database)});
    let duckdb = json!({"kind": "duckdb", "database": "x.duckdb", "table": "a"});
    assert_eq!(
        success_value(fixture.run_transfer(postgres("a"), duckdb.clone(), json!({})).await)["rows_transferred"],
        2
    );
    assert_eq!(
        success_value(fixture.run_transfer(duckdb, postgres("back"), json!({})).await)["rows_transferred"],
        2
    );
    let same = query(
        &fixture.database,
        "SELECT count(*) AS n FROM a JOIN back ON a::text = back::text",
    )
    .await;
    let both = query(
        &fixture.database,
        "SELECT a::text AS a, back::text AS back FROM a, back",
    )
    .await;
    assert_eq!(same[0]["n"], 2, "{both}");
}

#[tokio::test]
async fn texts_of_files_are_unchanged_in_duckdb() {
    let fixture = TransferFixture::new().await;
    let blob = "CREATE TABLE b (id BIGINT, bytes BLOB)";
    let on = json!({"database": "x.duckdb"});
    success_value(run_call(&fixture.tools, sql_call(fixture.dir.path(), blob, on.clone())).await);
    let texts = json!([
        "",
        null,
        "2024-01-05T10:00:00Z",
        "007",
        "6FFA0B5D-1F3C-4A0E-9D4F-0123456789AB",
        "a;b|c"
    ]);
    let rows: Vec<Value> = (1..)
        .zip(texts.as_array().unwrap())
        .map(|(id, name)| json!({"id": id, "name": name}))
        .collect();
    let csv = "id,name\n1,\"\"\n2,\n3,2024-01-05T10:00:00Z\n4,007\n5,6FFA0B5D-1F3C-4A0E-9D4F-0123456789AB\n6,a;b|c\n";
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    for (name, text) in [
        ("in.csv", csv.to_owned()),
        ("in.json", json!(rows).to_string()),
        ("in.ndjson", lines.join("\n")),
    ] {
        std::fs::write(fixture.dir.path().join(name), text).unwrap();
        let source = json!({"kind": "file", "uri": format!("file://{name}")});
        let done = fixture
            .run_transfer(source, fixture.endpoint("duckdb"), json!({"mode": "replace"}))
            .await;
        assert_eq!(success_value(done)["rows_transferred"], 6, "{name}");
        let names = fixture.read_rows("duckdb").await;
        let names: Vec<&Value> = names.iter().map(|row| &row["name"]).collect();
        assert_eq!(json!(names), texts, "{name}");
    }
    for (name, text) in [
        ("bytes.csv", "id,bytes\n1,AP8=\n"),
        ("bytes.json", r#"[{"id": 1, "bytes": "AP8="}]"#),
    ] {
        std::fs::write(fixture.dir.path().join(name), text).unwrap();
        let source = json!({"kind": "file", "uri": format!("file://{name}")});
        let target = json!({"kind": "duckdb", "table": "b", "database": "x.duckdb"});
        success_value(fixture.run_transfer(source, target, json!({"mode": "replace"})).await);
        let read = "SELECT hex(bytes) AS h FROM b";
        let read = success_value(run_call(&fixture.tools, sql_call(fixture.dir.path(), read, on.clone())).await);
        assert_eq!(read["rows"], json!([{"h": "00FF"}]), "{name}");
    }
}

#[tokio::test]
async fn json_is_unchanged_between_postgres_databases() {
    let fixture = TransferFixture::new().await;
    let values = [
        "null",
        "12345678901234567890123456789.5",
        r#""{\"a\": 1}""#,
        r#"{"a": 1.10, "b": [null]}"#,
        r#""text""#,
    ];
    query(
        &fixture.database,
        "CREATE TABLE j (id INT, d JSONB, e JSON); CREATE TABLE k (LIKE j); INSERT INTO j VALUES (0, NULL, NULL)",
    )
    .await;
    for (id, value) in (1..).zip(values) {
        let insert = format!("INSERT INTO j VALUES ({id}, '{value}', '{value}')");
        query(&fixture.database, &insert).await;
    }
    let source = json!({"kind": "postgres", "table": "j", "auth": database_auth(&fixture.database)});
    let mut target = json!({"kind": "postgres", "table": "k", "auth": database_auth(&fixture.database)});
    for mapping in [Value::Null, json!({"e": "d", "id": "id", "d": "e"})] {
        if !mapping.is_null() {
            target["mapping"] = mapping;
        }
        let manner = json!({"mode": "replace"});
        success_value(fixture.run_transfer(source.clone(), target.clone(), manner).await);
        let same = "SELECT count(*) AS n FROM j JOIN k ON j.id = k.id AND j.d IS NOT DISTINCT FROM k.d \
            AND j.e::jsonb IS NOT DISTINCT FROM k.e::jsonb";
        assert_eq!(query(&fixture.database, same).await[0]["n"], 6);
    }
}

#[tokio::test]
async fn objects_and_http_are_endpoints() {
    let fixture = TransferFixture::new().await;
    let s3 = S3Server::private();
    let bucket_auth = json!({"access_key_id": "tests", "secret_access_key": s3.secret(), "endpoint": s3.url()});
    let (url, posted) = start_http();
    let web = json!({"kind": "http", "url": format!("{url}/rows")});
    let parquet = json!({"kind": "s3", "uri": format!("s3://{}/x.parquet", S3Server::BUCKET), "auth": bucket_auth});
    assert_eq!(
        success_value(fixture.run_transfer(web, parquet.clone(), json!({})).await)["rows_transferred"],
        2
    );
    success_value(
        fixture
            .run_transfer(parquet, fixture.endpoint("postgres"), json!({}))
            .await,
    );
    assert_eq!(fixture.read_rows("postgres").await.len(), 2);
    let back = json!({"kind": "http", "url": format!("{url}/take"), "format": "ndjson"});
    let sent = success_value(
        fixture
            .run_transfer(fixture.endpoint("postgres"), back, json!({"chunk_size": 1}))
            .await,
    );
    assert_eq!(sent["chunks"], 2);
    assert_eq!(posted.lock().unwrap().concat().matches("\"id\"").count(), 2);
    let missing = json!({"kind": "http", "url": format!("{url}/missing")});
    assert_eq!(
        failure_error(
            fixture
                .run_transfer(missing, fixture.endpoint("sqlite"), json!({}))
                .await
        )
        .code,
        "HTTP_404"
    );
}

type PostedBodies = Arc<Mutex<Vec<String>>>;

/// Serves two rows, and remembers what is posted.
fn start_http() -> (String, PostedBodies) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let posted = PostedBodies::default();
    let recorded = posted.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut line, mut bytes) = (String::new(), String::new(), 0);
            reader.read_line(&mut first).unwrap();
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    bytes = count.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; bytes];
            reader.read_exact(&mut body).unwrap();
            recorded.lock().unwrap().push(String::from_utf8(body).unwrap());
            let status = if first.contains("/missing") {
                "404 no"
            } else {
                "200 yes"
            };
            let rows = r#"[{"id": 1, "name": "a", "price": 1.5}, {"id": 2, "name": "b", "price": null}]"#;
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                rows.len()
            );
            stream.write_all(format!("{head}{rows}").as_bytes()).unwrap();
        }
    });
    (url, posted)
}

#[tokio::test]
async fn a_transfer_that_is_stopped_leaves_nothing() {
    let fixture = TransferFixture::new().await;
    let source = json!({"kind": "duckdb", "query": "SELECT i AS id, 'x' AS name FROM range(100000000000) r(i)"});
    let call = transfer_call(fixture.dir.path(), source, fixture.endpoint("postgres"), json!({}));
    let stop = CancellationToken::new();
    let tool = fixture.tools.get("transfer").unwrap();
    let running = tool.call(call, stop.clone(), &DiscardingLogSink);
    tokio::pin!(running);
    let busy = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY%' AND datname = current_database()";
    loop {
        tokio::select! {
            biased;
            outcome = &mut running => panic!("{outcome:?}"),
            processes = query(&fixture.database, busy) => if processes != json!([]) { break },
        }
    }
    stop.cancel();
    assert_eq!(failure_error(running.await).code, "CANCELLED");
    assert_eq!(fixture.read_rows("postgres").await.len(), 0);
}

#[tokio::test]
async fn values_in_a_query_are_bound() {
    let fixture = TransferFixture::new().await;
    let injected = "'; DROP TABLE t; --";
    for kind in ["postgres", "sqlite", "duckdb"] {
        let mut source = fixture.endpoint(kind);
        source.as_object_mut().unwrap().remove("table");
        let mut call = transfer_call(fixture.dir.path(), source, json!({"uri": "file://out.json"}), json!({}));
        let pieces = vec![
            Piece::Text("SELECT 1 AS id, ".to_owned()),
            Piece::Value(json!(injected)),
            Piece::Text(" AS name".to_owned()),
        ];
        call.pieces.insert("source.query".to_owned(), vec![pieces]);
        success_value(run_call(&fixture.tools, call).await);
        let out = std::fs::read_to_string(fixture.dir.path().join("out.json")).unwrap();
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(out[0]["name"], injected, "{kind}");
    }
}
