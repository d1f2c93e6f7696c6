//! Cursor loops: rows are claimed in frames from a real Postgres. No row is lost or claimed twice if a process crashes.

use serde_json::json;
use tests::cli_sandbox::CliSandbox;

use crate::fixture::{DatabaseFixture, wait_until};

const SETUP: &str = "CREATE TABLE work (id int PRIMARY KEY, taken int NOT NULL DEFAULT 0); \
    INSERT INTO work SELECT i FROM generate_series(1, 25) i; CREATE TABLE done (id int, key text)";

fn playbook(fixture: &DatabaseFixture, claim: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: cursor}}\nworkflow:\n\
         \x20 - step: each\n    loop:\n      cursor:\n        kind: postgres\n        auth: {{dsn: \"{url}\"}}\n        claim: |\n          {claim}\n\
         \x20     iterator: row\n      spec: {{mode: cursor, frame: {{max_rows: 10, row_concurrency: 4}}}}\n\
         \x20   tool: {{kind: postgres, auth: {{dsn: \"{url}\"}}, \
         command: \"INSERT INTO done VALUES ({{{{ row.id }}}}, {{{{ idempotency_key }}}})\"}}\n",
        url = fixture.database.url()
    )
}

const CLAIM: &str = "UPDATE work SET taken = taken + 1 WHERE id IN (SELECT id FROM work WHERE taken = 0 ORDER BY id \
    LIMIT {{ __frame_max_rows }} FOR UPDATE SKIP LOCKED) RETURNING id";

async fn cursor_fixture() -> DatabaseFixture {
    let fixture = DatabaseFixture::new();
    fixture.query(SETUP).await;
    fixture
}

/// That every row was claimed once, and worked on at least once.
async fn check_complete(fixture: &DatabaseFixture) {
    assert_eq!(fixture.query_value("SELECT sum(taken) FROM work").await, 25);
    assert_eq!(fixture.query_value("SELECT max(taken) FROM work").await, 1);
    assert_eq!(fixture.query_value("SELECT count(DISTINCT id) FROM done").await, 25);
    assert_eq!(fixture.query_value("SELECT count(DISTINCT key) FROM done").await, 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_claimed_until_there_is_none() {
    let (fixture, sandbox) = (cursor_fixture().await, CliSandbox::new());
    sandbox.write("cursor.yaml", &playbook(&fixture, CLAIM));
    let ran = tokio::task::block_in_place(|| sandbox.run_json(&["run", "cursor.yaml", "-o", "json"]));
    assert_eq!(ran["status"], "COMPLETED", "{ran}");
    check_complete(&fixture).await;
    assert_eq!(fixture.query_value("SELECT count(*) FROM done").await, 25);
    let events = tokio::task::block_in_place(|| sandbox.events("last"));
    let frames = events
        .iter()
        .filter(|event| event["event_type"] == "loop.frame.claimed");
    let rows: Vec<_> = frames.map(|event| event["payload"]["rows"].clone()).collect();
    assert_eq!(rows, [10, 5, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_worker_is_killed_is_claimed_again() {
    let (fixture, sandbox) = (cursor_fixture().await, CliSandbox::new());
    // The claim of the second frame waits at its commit, with its rows locked, until the process is killed.
    fixture
        .query(
            "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF NEW.id > 10 THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON work DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION wait_at_commit()",
        )
        .await;
    let (gate, eye) = (fixture.raw_client().await, fixture.raw_client().await);
    let execute = |sql: &'static str| gate.batch_execute(sql);
    execute("SELECT pg_advisory_lock(7)").await.expect("a lock");
    sandbox.write("cursor.yaml", &playbook(&fixture, CLAIM));
    let running = sandbox.start(&["run", "cursor.yaml", "-q"]);
    wait_until(
        &eye,
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .await;
    tokio::task::block_in_place(|| running.kill());
    // The database notices the lost connection only after the commit.
    execute("SELECT pg_advisory_unlock(7)").await.expect("an unlock");
    wait_until(&eye, "SELECT sum(taken) = 20 FROM work").await;
    let (code, _) = tokio::task::block_in_place(|| sandbox.start(&["resume", "last", "-q"]).finish());
    assert_eq!(code, Some(0));
    check_complete(&fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_returns_nothing_of_what_it_changed_is_an_error() {
    let (fixture, sandbox) = (cursor_fixture().await, CliSandbox::new());
    let claim = "UPDATE work SET taken = 1 WHERE id < 3";
    sandbox.write("cursor.yaml", &playbook(&fixture, claim));
    let ran = tokio::task::block_in_place(|| sandbox.run(&["run", "cursor.yaml", "-o", "json"]));
    assert_eq!(ran.json()["error"]["code"], json!("CLAIM_WITHOUT_ROWS"));
}
