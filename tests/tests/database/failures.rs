//! Each kind of error, provoked for real.

use std::time::Duration;

use language::template::Piece;
use model::outcome::ErrorKind;
use serde_json::json;
use tests::peers::PostgresServer;
use tokio_postgres::Client;

use crate::fixture::{DatabaseFixture, failure_error, new_call, wait_until, with_timeout};

const ONE_WAITS: &str = "SELECT count(*) = 1 FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";
const TWO_WAIT: &str = "SELECT count(*) = 2 FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

async fn run_sql(client: &Client, sql: &str) {
    client.batch_execute(sql).await.expect(sql);
}

async fn rows_fixture() -> DatabaseFixture {
    let fixture = DatabaseFixture::new();
    let sql = "CREATE TABLE item (id int CONSTRAINT item_key PRIMARY KEY, n int CHECK (n < 100)); \
        INSERT INTO item VALUES (1, 0), (2, 0)";
    fixture.query(sql).await;
    fixture
}

#[tokio::test]
async fn an_unreachable_server_is_a_retryable_error_and_nothing_was_sent() {
    let fixture = DatabaseFixture::new();
    let mut call = fixture.sql_call("SELECT 1");
    call.fields["auth"] = json!({"db_host": "127.0.0.1", "db_port": 1, "db_user": "me", "db_password": "hunter2"});
    let refused = failure_error(&fixture.run_call(call).await);
    assert_eq!(
        (refused.kind, refused.code.as_str()),
        (ErrorKind::DbConnection, "PG_CONNECT")
    );
    assert!(refused.retryable && !refused.leaves_effect_unknown());
    assert!(refused.message.contains("127.0.0.1:1/me"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_have_different_errors_without_the_password() {
    let fixture = DatabaseFixture::new();
    let password = PostgresServer::shared().password();
    let wrong = fixture.database.url().replace(password, "wrong-password");
    let refused = failure_error(
        &fixture
            .run_call(new_call(&wrong, vec![Piece::Text("SELECT 1".to_owned())]))
            .await,
    );
    assert_eq!((refused.kind, refused.code.as_str()), (ErrorKind::Auth, "PG_28P01"));
    assert!(!refused.retryable && !format!("{refused:?}").contains("wrong-password"));
    let nowhere = format!("{}_not", fixture.database.url());
    let missing = failure_error(
        &fixture
            .run_call(new_call(&nowhere, vec![Piece::Text("SELECT 1".to_owned())]))
            .await,
    );
    assert_eq!((missing.kind, missing.code.as_str()), (ErrorKind::NotFound, "PG_3D000"));
    assert!(!format!("{missing:?}").contains(password));
    let mut unresolved = fixture.sql_call("SELECT 1");
    unresolved.fields["auth"] = json!("pg_main");
    assert_eq!(
        failure_error(&fixture.run_call(unresolved).await).code,
        "AUTH_UNRESOLVED"
    );
}

#[tokio::test]
async fn errors_in_sql_name_their_line() {
    let fixture = rows_fixture().await;
    let typo = fixture.query_error("SELECT 1;\nSELECT id,\n  nothing\nFROM item").await;
    assert_eq!((typo.kind, typo.code.as_str()), (ErrorKind::Schema, "PG_42703"));
    assert_eq!(
        (&typo.details["statement"], &typo.details["line"]),
        (&json!(1), &json!(3))
    );
    let table = fixture.query_error("SELECT * FROM nowhere").await;
    assert_eq!((table.kind, table.code.as_str()), (ErrorKind::Schema, "PG_42P01"));
    let failure = fixture
        .run_call(fixture.template_call(vec![
            Piece::Text("SELECT id ".to_owned()),
            Piece::Value(json!("item")),
            Piece::Text(" FROM item".to_owned()),
        ]))
        .await;
    assert_eq!(failure_error(&failure).code, "PG_42601");
    assert!(failure_error(&failure).message.contains("| ident"));
    assert_eq!(failure.facets().pg.as_ref().expect("a facet")["position"], 11);
}

#[tokio::test]
async fn a_violated_constraint_is_named() {
    let fixture = rows_fixture().await;
    let outcome = fixture.run_call(fixture.sql_call("INSERT INTO item VALUES (1)")).await;
    let twice = failure_error(&outcome);
    assert_eq!((twice.kind, twice.code.as_str()), (ErrorKind::DbConstraint, "PG_23505"));
    assert!(!twice.retryable);
    let pg = outcome.facets().pg.clone().expect("a facet");
    assert_eq!(
        (&pg["code"], &pg["sqlstate"], &pg["constraint"]),
        (&json!("23505"), &json!("23505"), &json!("item_key"))
    );
    assert_eq!(fixture.query_error("UPDATE item SET n = 100").await.code, "PG_23514");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_of_two_sessions_is_retryable() {
    let fixture = rows_fixture().await;
    let (gate, other, observer) = (
        fixture.raw_client().await,
        fixture.raw_client().await,
        fixture.raw_client().await,
    );
    run_sql(&gate, "SELECT pg_advisory_lock(1)").await;
    run_sql(
        &other,
        "SET deadlock_timeout = '30s'; BEGIN; UPDATE item SET n = 1 WHERE id = 1",
    )
    .await;
    let call = fixture.sql_call(
        "SET deadlock_timeout = '20ms'; BEGIN; UPDATE item SET n = 2 WHERE id = 2; \
         SELECT pg_advisory_lock(1); UPDATE item SET n = 2 WHERE id = 1; COMMIT",
    );
    let ours = fixture.run_call(call);
    let theirs = async {
        wait_until(&observer, ONE_WAITS).await;
        let second = other.batch_execute("UPDATE item SET n = 1 WHERE id = 2; COMMIT");
        let release = async {
            wait_until(&observer, TWO_WAIT).await;
            run_sql(&gate, "SELECT pg_advisory_unlock(1)").await;
        };
        let (second, ()) = tokio::join!(second, release);
        second.expect("the other session goes on");
    };
    let (outcome, ()) = tokio::join!(ours, theirs);
    let victim = failure_error(&outcome);
    assert_eq!((victim.kind, victim.code.as_str()), (ErrorKind::DbDeadlock, "PG_40P01"));
    assert!(victim.retryable);
    assert_eq!(outcome.facets().pg.as_ref().expect("a facet")["code"], "40P01");
    assert_eq!(
        fixture.query_value("SELECT sum(n) FROM item").await,
        2,
        "ours is undone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_is_retryable() {
    let fixture = rows_fixture().await;
    let (gate, observer) = (fixture.raw_client().await, fixture.raw_client().await);
    run_sql(&gate, "SELECT pg_advisory_lock(1)").await;
    let call = fixture.sql_call(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(n) FROM item; SELECT pg_advisory_lock(1); \
         UPDATE item SET n = n + 1; COMMIT",
    );
    let theirs = async {
        wait_until(&observer, ONE_WAITS).await;
        run_sql(&gate, "UPDATE item SET n = 50; SELECT pg_advisory_unlock(1)").await;
    };
    let (outcome, ()) = tokio::join!(fixture.run_call(call), theirs);
    let loser = failure_error(&outcome);
    assert_eq!((loser.kind, loser.code.as_str()), (ErrorKind::DbDeadlock, "PG_40001"));
    assert!(loser.retryable);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_stopped_at_the_server() {
    let fixture = rows_fixture().await;
    let call = with_timeout(
        fixture.sql_call("UPDATE item SET n = 7; SELECT pg_sleep(60)"),
        Duration::from_millis(300),
    );
    let outcome = fixture.run_call(call).await;
    let slow = failure_error(&outcome);
    assert_eq!((slow.kind, slow.code.as_str()), (ErrorKind::DbTimeout, "PG_57014"));
    assert!(!slow.leaves_effect_unknown());
    assert_eq!(outcome.facets().pg.as_ref().expect("a facet")["code"], "57014");
    let busy = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(60)%' AND state = 'active' AND pid <> pg_backend_pid()";
    wait_until(&fixture.raw_client().await, busy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_ended_in_the_middle_leaves_the_effect_unknown() {
    let fixture = rows_fixture().await;
    let observer = fixture.raw_client().await;
    let end = async {
        wait_until(
            &observer,
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(61)%' AND state = 'active'",
        )
        .await;
        run_sql(
            &observer,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(61)%'",
        )
        .await;
    };
    let (outcome, ()) = tokio::join!(fixture.run_call(fixture.sql_call("SELECT pg_sleep(61)")), end);
    let ended = failure_error(&outcome);
    assert_eq!(ended.kind, ErrorKind::DbConnection, "{ended:?}");
    assert!(ended.retryable && ended.leaves_effect_unknown());
    assert_eq!(fixture.query_value("SELECT 1").await, 1, "another connection is made");
}

#[tokio::test]
async fn copying_from_or_to_the_client_is_refused_before_anything_runs() {
    let fixture = rows_fixture().await;
    let refused = fixture.query_error("DELETE FROM item; COPY item FROM STDIN").await;
    assert_eq!(refused.code, "PG_COPY");
    assert_eq!(fixture.query_value("SELECT count(*) FROM item").await, 2);
}
