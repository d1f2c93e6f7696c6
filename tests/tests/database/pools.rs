//! Connections: kept, bounded, cleaned, closed; stopped when told; encrypted as asked; and never the engine's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::outcome::ErrorKind;
use model::result_ref::ResultRef;
use model::template::Piece;
use serde_json::{Value, json};
use tests::peers::Postgres;
use tokio_util::sync::CancellationToken;
use tools::{NoLog, PostgresConfig};

use crate::house::{House, call, error, first, result, tool, until};

const OURS: &str = "application_name = 'noetl' AND datname = current_database()";
const PID: &str = "SELECT pg_backend_pid()";

#[tokio::test]
async fn a_connection_is_used_again_and_nothing_of_the_last_call_is_left() {
    let house = House::with(PostgresConfig {
        connections_max: 1,
        ..PostgresConfig::default()
    });
    let before = house.value(PID).await;
    house
        .ask(
            "SET work_mem = '77MB'; CREATE TEMP TABLE left_over (a int); SELECT pg_advisory_lock(5); \
             LISTEN news; SET standard_conforming_strings = off; CREATE ROLE nobody_here; SET ROLE nobody_here",
        )
        .await;
    house.error("BEGIN; SELECT 1 / 0").await;
    let eye = house.raw().await;
    until(&eye, "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").await;
    let after = house
        .ask(
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
    house.ask("DROP ROLE nobody_here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_more_connections_than_allowed() {
    let house = House::with(PostgresConfig {
        connections_max: 2,
        ..PostgresConfig::default()
    });
    let calls = (0..8).map(|_| house.value("SELECT pg_backend_pid() FROM pg_sleep(0.02)"));
    let pids: BTreeSet<String> = futures_util::future::join_all(calls)
        .await
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(pids.len() <= 2, "{pids:?}");
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_an_idle_one_closed() {
    let house = House::with(PostgresConfig {
        idle_max: Duration::from_millis(200),
        ..PostgresConfig::default()
    });
    let eye = house.raw().await;
    let first = house.value(PID).await;
    let kill = format!("SELECT pg_terminate_backend({first}, 5000)");
    eye.batch_execute(&kill)
        .await
        .expect("an administrator may");
    assert_ne!(house.value(PID).await, first);
    until(
        &eye,
        &format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE {OURS}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stopped_stops_at_the_server_and_its_connection_is_not_used_again() {
    let house = House::new();
    let pid = house.value(PID).await;
    let eye = house.raw().await;
    let stop = CancellationToken::new();
    let asked = house
        .tool
        .call(house.sql("SELECT pg_sleep(62)"), stop.clone(), &NoLog);
    let stopping = async {
        until(&eye, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(62)' AND state = 'active'").await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(asked, stopping);
    assert_eq!(error(&outcome).kind, ErrorKind::Cancelled);
    until(
        &eye,
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(62)'",
    )
    .await;
    assert_ne!(house.value(PID).await, pid);
}

/// A store that never answers, and tells when it was asked.
struct Silent(tokio::sync::Notify);

#[async_trait::async_trait]
impl results::Bodies for Silent {
    async fn put(&self, _: results::Source<'_>) -> Result<results::Stored, results::Error> {
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
async fn a_stop_does_not_reach_the_call_that_got_the_connection_next() {
    let house = House::with(PostgresConfig {
        connections_max: 1,
        ..PostgresConfig::default()
    });
    let eye = house.raw().await;
    let silent = Arc::new(Silent(tokio::sync::Notify::new()));
    let mut large = house.sql("SELECT repeat('x', 1000) AS x FROM generate_series(1, 1000)");
    large.keeper = Some(results::Keeper {
        bodies: silent.clone(),
        control: model::playbook::ResultControl::default(),
        uri: "noetl://execution/7/step/s/task/t/run/1.1/attempt/1".to_owned(),
        bytes_max: u64::MAX,
        missing: results::MissingPaths::default(),
    });
    let stop = CancellationToken::new();
    let keeping = house.tool.call(large, stop.clone(), &NoLog);
    eye.batch_execute("SELECT pg_advisory_lock(7)")
        .await
        .expect("a lock");
    let next = async {
        silent.0.notified().await;
        house.value("SELECT 5 AS n FROM pg_advisory_lock(7)").await
    };
    let stopping = async {
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT 5%' AND wait_event_type = 'Lock'";
        until(&eye, waits).await;
        stop.cancel();
    };
    let stopped = async {
        let (outcome, ()) = tokio::join!(keeping, stopping);
        eye.batch_execute("SELECT pg_advisory_unlock(7)")
            .await
            .expect("the lock was ours");
        outcome
    };
    let (found, outcome) = tokio::join!(next, stopped);
    assert_eq!(found, 5);
    assert_eq!(error(&outcome).kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn each_credential_has_connections_of_its_own() {
    let house = House::new();
    house
        .ask("CREATE ROLE somebody_else LOGIN PASSWORD 'x'")
        .await;
    let me = house.value("SELECT current_user::text").await;
    let mut other = house.sql("SELECT current_user::text");
    let place = house.db.place();
    other.fields["auth"] =
        json!({"dsn": format!("postgres://somebody_else:x@{place}/{}", house.db.name())});
    assert_eq!(first(&house.result(other).await), "somebody_else");
    assert_eq!(house.value("SELECT current_user::text").await, me);
    house.ask("DROP ROLE somebody_else").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_of_an_engine_is_refused_under_every_name_unless_it_is_allowed() {
    let house = House::new();
    let url = store::PostgresUrl::new(house.db.url());
    let store = store::Postgres::open(store::PostgresOptions::new(url))
        .await
        .expect("a store opens");
    let alias = house.db.url().replace("127.0.0.1", "localhost");
    for url in [house.db.url(), alias] {
        let asked = call(
            &url,
            vec![Piece::Text("DELETE FROM noetl.execution".to_owned())],
        );
        let refused = error(&house.outcome(asked).await);
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (ErrorKind::Auth, "DATABASE_FORBIDDEN")
        );
    }
    let allowing = tool(PostgresConfig {
        allow: vec![house.db.name().to_owned()],
        ..PostgresConfig::default()
    });
    let asked = house.sql("SELECT count(*) FROM noetl.execution");
    let outcome = allowing.call(asked, CancellationToken::new(), &NoLog).await;
    assert_eq!(first(&result(outcome)), 0);
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_trusts_as_far_as_it_says() {
    let server = Postgres::private();
    let database = server.fresh_database();
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    server.secure(&made.cert.pem(), &made.signing_key.serialize_pem());
    let dir = tempfile::tempdir().expect("a folder");
    let roots = dir.path().join("roots.pem");
    std::fs::write(&roots, made.cert.pem()).expect("a file");
    let by_address = database.url();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let tool = tool(PostgresConfig::default());
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
        let mut asked = call(url, vec![Piece::Text(text)]);
        asked.fields["auth"]["sslmode"] = json!(mode);
        if let Some(roots) = roots {
            asked.fields["auth"]["sslrootcert"] = json!(roots);
        }
        let outcome = tool.call(asked, CancellationToken::new(), &NoLog).await;
        match encrypted {
            Some(encrypted) => assert_eq!(first(&result(outcome)), encrypted, "{mode} {url}"),
            None => assert!(outcome.failure().is_some(), "{mode} {url}"),
        }
    }
}
