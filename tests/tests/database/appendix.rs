//! The appendix of the language's specification against a real Postgres, by the real binary: a server that is busy at
//! times, a lost race and a deadlock, each made by a second session.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::http::{FakeHttpServer, JsonReply, ReceivedRequest};
use tokio_postgres::Client;

use crate::fixture::{DatabaseFixture, wait_until};

const WAITERS: &str = "SELECT count(*) = 1 FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";
const TWO_WAITERS: &str = "SELECT count(*) = 2 FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Three patients and two visits; the second request finds the server busy twice.
fn clinic_reply(request: &ReceivedRequest, before: usize) -> JsonReply {
    if before == 1 || before == 2 {
        return (503, json!({"error": "busy"}));
    }
    let items: &[u64] = match request.path.as_str() {
        "/patients" => &[11, 12, 13],
        _ => &[21, 22],
    };
    let number = |name| request.param(name).and_then(|text| text.parse::<usize>().ok());
    let (page, size) = (number("page").unwrap_or(1), number("pageSize").unwrap_or(10));
    let first = (page - 1) * size;
    let on_page = &items[first.min(items.len())..items.len().min(first + size)];
    let paging = json!({"page": page, "hasMore": first + size < items.len()});
    (200, json!({"data": on_page, "paging": paging}))
}

/// The playbook of the specification, with its gaps filled in.
fn playbook(fixture: &DatabaseFixture, mode: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/appendix.yaml");
    let text = fs::read_to_string(path).expect("the playbook is there");
    let keychain = "keychain:\n  - name: pg_k8s\n    kind: postgres_credential\n";
    let insert = "INSERT INTO item (path, id) SELECT '{{ iter.endpoint.path }}', jsonb_array_elements(\
        '{{ iter.items | tojson }}'::jsonb)::int";
    text.replace(keychain, "")
        .replace("kind: sqlite", "kind: postgres")
        .replace(
            "auth: pg_k8s",
            &format!("auth: {{ dsn: \"{}\" }}", fixture.database.url()),
        )
        .replace("INSERT INTO ...", insert)
        .replace("mode: sequential", &format!("mode: {mode}"))
}

async fn run_sql(client: &Client, sql: &str) {
    client.batch_execute(sql).await.expect(sql);
}

/// Statuses and codes of failed attempts, in the order of the log.
fn error_texts(events: &[Value]) -> Vec<String> {
    let of = |event: &Value| {
        let outcome = &event["payload"]["outcome"];
        let http = outcome["http"]["status"].as_u64().filter(|status| *status >= 400);
        let code = outcome["pg"]["code"].as_str().map(str::to_owned);
        http.map(|status| status.to_string()).or(code)
    };
    events.iter().filter_map(of).collect()
}

const ENDPOINTS: &str = "endpoints=[{path: /patients, page_size: 2}, {path: /visits, page_size: 2}]";

#[tokio::test(flavor = "multi_thread")]
async fn the_appendix_retries_after_a_busy_server_a_serialization_failure_and_a_deadlock() {
    let fixture = DatabaseFixture::new();
    let (sandbox, http) = (CliSandbox::new(), FakeHttpServer::start(clinic_reply));
    sandbox.write("appendix.yaml", &playbook(&fixture, "sequential"));
    fixture
        .query(&format!(
            "CREATE TABLE item (path text, id int); CREATE TABLE counter (id int PRIMARY KEY, n int); \
             INSERT INTO counter VALUES (1, 0), (2, 0); \
             CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               UPDATE counter SET n = n + 1 WHERE id = 1; PERFORM pg_advisory_xact_lock(7); \
               UPDATE counter SET n = n + 1 WHERE id = 2; RETURN NULL; END $$; \
             CREATE TRIGGER meet BEFORE INSERT ON item FOR EACH STATEMENT EXECUTE FUNCTION meet(); \
             ALTER DATABASE {db} SET default_transaction_isolation = 'repeatable read'; \
             ALTER DATABASE {db} SET deadlock_timeout = '20ms'",
            db = fixture.database.name()
        ))
        .await;
    let (gate, other, eye) = (
        fixture.raw_client().await,
        fixture.raw_client().await,
        fixture.raw_client().await,
    );
    run_sql(
        &other,
        "SET deadlock_timeout = '60s'; SET default_transaction_isolation = 'read committed'",
    )
    .await;
    run_sql(&gate, "SELECT pg_advisory_lock(7)").await;
    let url = format!("api_url={}", http.url());
    let args = ["run", "appendix.yaml", "--set", &url, "--set", ENDPOINTS, "-o", "json"];
    let running = sandbox.start(&args);
    wait_until(&eye, WAITERS).await;
    run_sql(&other, "UPDATE counter SET n = n + 100 WHERE id = 2").await;
    run_sql(&gate, "SELECT pg_advisory_unlock(7)").await;
    // The lost race is tried again after two seconds.
    run_sql(&gate, "SELECT pg_advisory_lock(7)").await;
    wait_until(&eye, WAITERS).await;
    run_sql(&other, "BEGIN; UPDATE counter SET n = n + 100 WHERE id = 2").await;
    let crossing = other.batch_execute("UPDATE counter SET n = n + 100 WHERE id = 1; COMMIT");
    let release = async {
        wait_until(&eye, TWO_WAITERS).await;
        run_sql(&gate, "SELECT pg_advisory_unlock(7)").await;
    };
    let (crossed, ()) = tokio::join!(crossing, release);
    crossed.expect("the other session goes on");
    let (code, _) = tokio::task::block_in_place(|| running.finish());
    assert_eq!(code, Some(0));
    let events = tokio::task::block_in_place(|| sandbox.events("last"));
    assert_eq!(error_texts(&events), ["40001", "40P01", "503", "503"]);
    let ids = fixture.query_value("SELECT array_agg(id ORDER BY id) FROM item").await;
    assert_eq!(ids, json!([11, 12, 13, 21, 22]));
    let counts = fixture
        .query_value("SELECT array_agg(n ORDER BY id) FROM counter")
        .await;
    assert_eq!(counts, json!([103, 203]), "three pages were saved once each");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_appendix_with_a_parallel_loop_stores_the_same() {
    let fixture = DatabaseFixture::new();
    let (sandbox, http) = (CliSandbox::new(), FakeHttpServer::start(clinic_reply));
    sandbox.write("appendix.yaml", &playbook(&fixture, "parallel"));
    fixture.query("CREATE TABLE item (path text, id int)").await;
    let url = format!("api_url={}", http.url());
    let args = ["run", "appendix.yaml", "--set", &url, "--set", ENDPOINTS, "-o", "json"];
    let run = tokio::task::block_in_place(|| sandbox.run_json(&args));
    assert_eq!(run["status"], "COMPLETED");
    let ids = fixture.query_value("SELECT array_agg(id ORDER BY id) FROM item").await;
    assert_eq!(ids, json!([11, 12, 13, 21, 22]));
}
