//! `effect: transactional`: whatever happens between commit and response, statements take effect once.

use language::playbook::Effect;
use language::template::Piece;
use model::outcome::{ErrorKind, Outcome};
use serde_json::json;
use tests::peers::FaultProxy;
use tools::Call;

use crate::fixture::{DatabaseFixture, failure_error, new_call, success_value, wait_until};

const ADD: &str = "INSERT INTO tally (n) VALUES (1); SELECT count(*) AS n FROM tally";

async fn tally_fixture() -> DatabaseFixture {
    let fixture = DatabaseFixture::new();
    fixture
        .query("CREATE TABLE tally (id bigserial PRIMARY KEY, n int)")
        .await;
    fixture
}

fn with_idempotency_key(mut call: Call, key: &str) -> Call {
    call.effect = Effect::Transactional;
    call.idempotency_key = key.into();
    call
}

#[tokio::test]
async fn a_second_attempt_finds_the_effect_of_the_first() {
    let fixture = tally_fixture().await;
    let first = fixture
        .call_result(with_idempotency_key(fixture.sql_call(ADD), "a"))
        .await;
    let outcome = fixture.run_call(with_idempotency_key(fixture.sql_call(ADD), "a")).await;
    let Outcome::Ok(again) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(again.result, first);
    assert_eq!(again.meta["recorded"], true);
    assert_eq!(first["rows"], json!([{"n": 1}]));
    fixture
        .call_result(with_idempotency_key(fixture.sql_call(ADD), "b"))
        .await;
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 2);
    assert_eq!(
        fixture
            .query_value("SELECT count(*) FROM noetl_effect WHERE result IS NOT NULL")
            .await,
        2
    );
}

#[tokio::test]
async fn a_try_that_fails_leaves_nothing_and_the_next_one_runs() {
    let fixture = tally_fixture().await;
    let half = fixture.sql_call("INSERT INTO tally (n) VALUES (1); SELECT 1 / 0");
    assert_eq!(
        failure_error(&fixture.run_call(with_idempotency_key(half, "a")).await).code,
        "PG_22012"
    );
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 0);
    fixture
        .call_result(with_idempotency_key(fixture.sql_call(ADD), "a"))
        .await;
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 1);
}

#[tokio::test]
async fn statements_that_would_end_the_transaction_are_refused() {
    let fixture = tally_fixture().await;
    let refused = failure_error(
        &fixture
            .run_call(with_idempotency_key(fixture.sql_call("BEGIN; SELECT 1; COMMIT"), "a"))
            .await,
    );
    assert_eq!(refused.code, "PG_TRANSACTION");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_attempts_take_effect_once_with_equal_outcomes() {
    let fixture = tally_fixture().await;
    let tries = (0..8).map(|_| fixture.call_result(with_idempotency_key(fixture.sql_call(ADD), "a")));
    let responses = futures_util::future::join_all(tries).await;
    assert!(
        responses.iter().all(|response| *response == responses[0]),
        "{responses:?}"
    );
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_lost_after_the_commit_is_found_by_the_next_attempt() {
    let fixture = tally_fixture().await;
    // At commit the server waits for a lock that the test has taken.
    fixture
        .query(
            "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tally DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION wait_at_commit()",
        )
        .await;
    let (gate, observer) = (fixture.raw_client().await, fixture.raw_client().await);
    gate.batch_execute("SELECT pg_advisory_lock(7)").await.expect("a lock");
    let proxy = FaultProxy::start(&fixture.database.location());
    let through = || {
        let call = new_call(
            &fixture.database.url_at(proxy.port()),
            vec![Piece::Text(ADD.to_owned())],
        );
        with_idempotency_key(call, "a")
    };
    let lose = async {
        wait_until(
            &observer,
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event_type = 'Lock'",
        )
        .await;
        proxy.set_dropping_responses(true);
        gate.batch_execute("SELECT pg_advisory_unlock(7)")
            .await
            .expect("an unlock");
        tokio::task::block_in_place(|| proxy.wait_until_response_dropped());
        proxy.cut_connections();
        proxy.set_dropping_responses(false);
    };
    let (outcome, ()) = tokio::join!(fixture.run_call(through()), lose);
    let broken = failure_error(&outcome);
    assert_eq!(
        (broken.kind, broken.code.as_str()),
        (ErrorKind::DbConnection, "PG_LOST")
    );
    assert!(broken.retryable && broken.leaves_effect_unknown());
    assert_eq!(
        fixture.query_value("SELECT count(*) FROM tally").await,
        1,
        "it was committed"
    );
    let recorded = success_value(fixture.run_call(through()).await);
    assert_eq!(recorded["rows"], json!([{"n": 1}]));
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_killed_before_the_commit_leaves_nothing() {
    let fixture = tally_fixture().await;
    let observer = fixture.raw_client().await;
    let call = fixture.sql_call("INSERT INTO tally (n) VALUES (1); SELECT pg_sleep(63)");
    let kill = async {
        wait_until(
            &observer,
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(63)' AND state = 'active'",
        )
        .await;
        observer
            .batch_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(63)'")
            .await
            .expect("an administrator may end connections");
    };
    let (outcome, ()) = tokio::join!(fixture.run_call(with_idempotency_key(call, "a")), kill);
    assert!(failure_error(&outcome).retryable);
    fixture
        .call_result(with_idempotency_key(fixture.sql_call(ADD), "a"))
        .await;
    assert_eq!(fixture.query_value("SELECT count(*) FROM tally").await, 1);
}
