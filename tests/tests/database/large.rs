//! Results larger than the inline cap pass into the store of bodies without staying in memory.

use std::sync::Arc;

use language::playbook::Effect;
use model::outcome::Outcome;
use model::playbook::ResultControl;
use results::{BodyStore as _, DirBodyStore, ResultWriter};
use serde_json::json;
use tools::Call;

use crate::fixture::DatabaseFixture;

const ROWS: u64 = 400_000;
const GROWTH_KIB_MAX: u64 = 48 * 1024;

fn with_result_writer(mut call: Call, bodies: &Arc<DirBodyStore>) -> Call {
    call.result_writer = Some(ResultWriter {
        store: bodies.clone(),
        control: ResultControl::default(),
        uri: "noetl://execution/1/result/rows".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: results::MissingPaths::default(),
    });
    call
}

/// The most memory this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has its status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let fields: Vec<&str> = line.expect("the process prints its peak").split_whitespace().collect();
    fields[1].parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_passes_through_in_bounded_memory() {
    let fixture = DatabaseFixture::new();
    let dir = tempfile::tempdir().expect("a folder");
    let bodies = Arc::new(DirBodyStore::open(dir.path()).expect("a store"));
    let sql = |rows: u64| format!("SELECT n, repeat('x', 100) AS text FROM generate_series(1, {rows}) n");
    fixture
        .run_call(with_result_writer(fixture.sql_call(&sql(2_000)), &bodies))
        .await;
    let before = peak_kib();
    let outcome = fixture
        .run_call(with_result_writer(fixture.sql_call(&sql(ROWS)), &bodies))
        .await;
    let grown = peak_kib() - before;
    assert!(grown < GROWTH_KIB_MAX, "grew by {grown} KiB");
    let Outcome::Ok(success) = outcome else {
        panic!("{outcome:?}")
    };
    let reference = success.reference.expect("it is too large to be inline");
    assert_eq!(reference.extracted["row_count"], ROWS);
    assert_eq!(reference.extracted["affected_rows"], 0);
}

#[tokio::test]
async fn a_stored_result_has_the_form_of_a_small_one_and_a_second_attempt_refers_to_it() {
    let fixture = DatabaseFixture::new();
    let dir = tempfile::tempdir().expect("a folder");
    let bodies = Arc::new(DirBodyStore::open(dir.path()).expect("a store"));
    let sql = "CREATE TABLE IF NOT EXISTS t (n int); INSERT INTO t VALUES (1); \
        SELECT n, 'it''s' AS t FROM generate_series(1, 9000) n; UPDATE t SET n = 2";
    let mut references = Vec::new();
    for _ in 0..2 {
        let mut call = with_result_writer(fixture.sql_call(sql), &bodies);
        call.effect = Effect::Transactional;
        match fixture.run_call(call).await {
            Outcome::Ok(success) => references.push(success.reference.expect("a reference")),
            Outcome::Error(failure) => panic!("{:?}", failure.error),
        }
    }
    assert_eq!(references[0], references[1]);
    assert_eq!(fixture.query_value("SELECT count(*) FROM t").await, 1);
    let bytes = bodies.get(&references[0]).await.expect("it is there");
    let body = results::decode_body(&references[0], &bytes);
    assert_eq!(body["row_count"], 9000);
    assert_eq!(body["affected_rows"], 2);
    assert_eq!(body["columns"], json!(["n", "t"]));
    assert_eq!(body["rows"][8999], json!({"n": 9000, "t": "it's"}));
    assert_eq!(body["command_2"]["rows"], body["rows"]);
    assert_eq!(
        body["command_1"],
        json!({"columns": [], "row_count": 0, "affected_rows": 1, "rows": []})
    );
}
