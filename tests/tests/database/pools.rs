//! Connections: pooled, limited, reset, closed, cancelled and encrypted, and never to the engine's own database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use language::template::Piece;
use model::outcome::ErrorKind;
use model::result_ref::ResultRef;
use serde_json::{Value, json};
use tests::peers::PostgresServer;
use tokio_util::sync::CancellationToken;
use tools::DiscardingLogSink;
use tools::postgres::PostgresConfig;

use crate::fixture::{DatabaseFixture, failure_error, first_row, new_call, postgres_tool, success_value, wait_until};

const OURS: &str = "application_name = 'noetl' AND datname = current_database()";
const PID: &str = "SELECT pg_backend_pid()";

#[tokio::test]
async fn a_connection_is_used_again_and_nothing_of_the_last_call_is_left() {
    let fixture = DatabaseFixture::with_config(PostgresConfig {
        connections_max: 1,
        ..PostgresConfig::default()
    });
    let before = fixture.query_value(PID).await;
    fixture
        .query(
            "SET work_mem = '77MB'; CREATE TEMP TABLE left_over (a int); SELECT pg_advisory_lock(5); \
             LISTEN news; SET standard_conforming_strings = off; CREATE ROLE nobody_here; SET ROLE nobody_here",
        )
        .await;
    fixture.query_error("BEGIN; SELECT 1 / 0").await;
    let observer = fixture.raw_client().await;
    wait_until(&observer, "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").await;
    let after = fixture
        .query(
            "SELECT pg_backend_pid() AS pid, current_setting('work_mem') AS mem, to_regclass('left_over') AS t, \
             current_setting('standard_conforming_strings') AS s, current_user = session_user AS me, \
             (SELECT count(*) FROM pg_listening_channels()) AS channels",
        )
        .await;
    let row = &after["rows"][0];
    assert_eq!(row["pid"], before, "the same connection");
    assert_ne!(row["mem"], "77MB");
    assert_eq!(
        (&row["t"], &row["s"], &row["me"], &row["channels"]),
        (&Value::Null, &json!("on"), &json!(true), &json!(0))
    );
    fixture.query("DROP ROLE nobody_here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_more_connections_than_allowed() {
    let fixture = DatabaseFixture::with_config(PostgresConfig {
        connections_max: 2,
        ..PostgresConfig::default()
    });
    let calls = (0..8).map(|_| fixture.query_value("SELECT pg_backend_pid() FROM pg_sleep(0.02)"));
    let pids: BTreeSet<String> = futures_util::future::join_all(calls)
        .await
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(pids.len() <= 2, "{pids:?}");
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_an_idle_one_closed() {
    let fixture = DatabaseFixture::with_config(PostgresConfig {
        idle_max: Duration::from_millis(200),
        ..PostgresConfig::default()
    });
    let observer = fixture.raw_client().await;
    let first = fixture.query_value(PID).await;
    let kill = format!("SELECT pg_terminate_backend({first}, 5000)");
    observer
        .batch_execute(&kill)
        .await
        .expect("an administrator may end connections");
    assert_ne!(fixture.query_value(PID).await, first);
    wait_until(
        &observer,
        &format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE {OURS}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stopped_stops_at_the_server_and_its_connection_is_not_used_again() {
    let fixture = DatabaseFixture::new();
    let observer = fixture.raw_client().await;
    let stop = CancellationToken::new();
    let call = fixture.tool.call(
        fixture.sql_call("SELECT pg_sleep(62)"),
        stop.clone(),
        &DiscardingLogSink,
    );
    let stopping = async {
        wait_until(
            &observer,
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(62)' AND state = 'active'",
        )
        .await;
        let sleeping = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(62)'";
        let row = observer.query_one(sleeping, &[]).await;
        stop.cancel();
        row.expect("the statement runs").get::<_, i32>(0)
    };
    let (outcome, pid) = tokio::join!(call, stopping);
    assert_eq!(failure_error(&outcome).kind, ErrorKind::Cancelled);
    wait_until(
        &observer,
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(62)'",
    )
    .await;
    assert_ne!(fixture.query_value(PID).await, pid);
}

/// A server that never responds and notifies when it gets a request.
struct SilentBodyStore(tokio::sync::Notify);

#[async_trait::async_trait]
impl results::BodyStore for SilentBodyStore {
    async fn put(&self, _: results::BodySource<'_>) -> Result<results::StoredBody, results::Error> {
        self.0.notify_one();
        std::future::pending().await
    }

    async fn get(&self, _: &ResultRef) -> Result<bytes::Bytes, results::Error> {
        std::future::pending().await
    }

    async fn delete(&self, _: &ResultRef) -> Result<(), results::Error> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_cancel_the_next_call_on_the_connection() {
    let fixture = DatabaseFixture::with_config(PostgresConfig {
        connections_max: 1,
        ..PostgresConfig::default()
    });
    let observer = fixture.raw_client().await;
    let silent = Arc::new(SilentBodyStore(tokio::sync::Notify::new()));
    let mut large = fixture.sql_call("SELECT repeat('x', 1000) AS x FROM generate_series(1, 1000)");
    large.result_writer = Some(results::ResultWriter {
        store: silent.clone(),
        control: model::playbook::ResultControl::default(),
        uri: "noetl://execution/7/step/s/task/t/run/1.1/attempt/1".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: results::MissingPaths::default(),
    });
    let stop = CancellationToken::new();
    let storing_call = fixture.tool.call(large, stop.clone(), &DiscardingLogSink);
    observer
        .batch_execute("SELECT pg_advisory_lock(7)")
        .await
        .expect("a lock");
    let next = async {
        silent.0.notified().await;
        fixture.query_value("SELECT 5 AS n FROM pg_advisory_lock(7)").await
    };
    let stopping = async {
        let waits =
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT 5%' AND wait_event_type = 'Lock'";
        wait_until(&observer, waits).await;
        stop.cancel();
    };
    let stopped = async {
        let (outcome, ()) = tokio::join!(storing_call, stopping);
        observer
            .batch_execute("SELECT pg_advisory_unlock(7)")
            .await
            .expect("the lock was ours");
        outcome
    };
    let (next_result, outcome) = tokio::join!(next, stopped);
    assert_eq!(next_result, 5);
    assert_eq!(failure_error(&outcome).kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn each_credential_has_connections_of_its_own() {
    let fixture = DatabaseFixture::new();
    fixture.query("CREATE ROLE somebody_else LOGIN PASSWORD 'x'").await;
    let me = fixture.query_value("SELECT current_user::text").await;
    let mut other = fixture.sql_call("SELECT current_user::text");
    let location = fixture.database.location();
    other.fields["auth"] = json!({"dsn": format!("postgres://somebody_else:x@{location}/{}", fixture.database.name())});
    assert_eq!(first_row(&fixture.call_result(other).await), "somebody_else");
    assert_eq!(fixture.query_value("SELECT current_user::text").await, me);
    fixture.query("DROP ROLE somebody_else").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_of_an_engine_is_refused_under_every_name_unless_it_is_allowed() {
    let fixture = DatabaseFixture::new();
    let url = store::PostgresUrl::new(fixture.database.url());
    let store = store::PostgresStore::open(store::PostgresOptions::new(url))
        .await
        .expect("a store opens");
    let alias = fixture.database.url().replace("127.0.0.1", "localhost");
    for url in [fixture.database.url(), alias] {
        let call = new_call(&url, vec![Piece::Text("DELETE FROM noetl.execution".to_owned())]);
        let refused = failure_error(&fixture.run_call(call).await);
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (ErrorKind::Auth, "DATABASE_FORBIDDEN")
        );
    }
    let allowing = postgres_tool(PostgresConfig {
        allow: vec![fixture.database.name().to_owned()],
        ..PostgresConfig::default()
    });
    let call = fixture.sql_call("SELECT count(*) FROM noetl.execution");
    let outcome = allowing.call(call, CancellationToken::new(), &DiscardingLogSink).await;
    assert_eq!(first_row(&success_value(outcome)), 0);
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_verifies_as_documented() {
    let server = PostgresServer::private();
    let database = server.fresh_database();
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    server.enable_tls(&certificate.cert.pem(), &certificate.signing_key.serialize_pem());
    let dir = tempfile::tempdir().expect("a folder");
    let roots = dir.path().join("roots.pem");
    std::fs::write(&roots, certificate.cert.pem()).expect("a file");
    let by_address = database.url();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let tool = postgres_tool(PostgresConfig::default());
    for (url, mode, roots, encrypted) in [
        (&by_address, "disable", None, Some(false)),
        (&by_address, "prefer", None, Some(true)),
        (&by_address, "require", None, Some(true)),
        (&by_address, "verify-ca", Some(&roots), Some(true)),
        (&by_address, "verify-full", Some(&roots), None),
        (&by_name, "verify-full", Some(&roots), Some(true)),
        (&by_name, "verify-full", None, None),
    ] {
        let text = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()".to_owned();
        let mut call = new_call(url, vec![Piece::Text(text)]);
        call.fields["auth"]["sslmode"] = json!(mode);
        if let Some(roots) = roots {
            call.fields["auth"]["sslrootcert"] = json!(roots);
        }
        let outcome = tool.call(call, CancellationToken::new(), &DiscardingLogSink).await;
        match encrypted {
            Some(encrypted) => assert_eq!(first_row(&success_value(outcome)), encrypted, "{mode} {url}"),
            None => assert!(outcome.failure().is_some(), "{mode} {url}"),
        }
    }
}
