//! Runs every example with the real binary, exactly as the guides show it, and compares the output with its comments.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, examples_dir};
use tests::http::{FakeHttpServer, JsonReply, ReceivedRequest};

/// A directory with a copy of the examples, like a checkout.
fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    std::fs::create_dir(sandbox.path("examples")).expect("the directory is writable");
    for entry in std::fs::read_dir(examples_dir()).expect("the examples exist") {
        let entry = entry.expect("the directory is readable");
        if entry.path().is_dir() {
            continue;
        }
        let to = sandbox.path("examples").join(entry.file_name());
        std::fs::copy(entry.path(), to).expect("the directory is writable");
    }
    sandbox
}

/// Runs an example; returns the JSON on its standard output.
fn run_result(sandbox: &CliSandbox, name: &str, extra_args: &[&str]) -> Value {
    let file = format!("examples/{name}.yaml");
    let mut args = vec!["run", &file];
    args.extend(extra_args);
    sandbox.run_json(&args)
}

#[test]
fn every_example_has_a_test_here() {
    let tested = [
        "approvals",
        "child",
        "children",
        "etl-postgres",
        "etl-sqlite",
        "fan-out",
        "hello",
        "pagination",
        "quantum",
        "quickstart",
        "retry",
        "transfer",
    ];
    let entries = std::fs::read_dir(examples_dir()).expect("the examples exist");
    let folders: BTreeSet<String> = entries
        .filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "yaml"))
        })
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(folders, tested.map(str::to_owned).into_iter().collect());
}

#[test]
fn etl_postgres_loads_twice_and_counts_once() {
    let database = tests::peers::PostgresServer::shared().fresh_database();
    let sandbox = sandbox();
    let dsn = format!("dsn={}", database.url());
    for _ in 0..2 {
        let totals = run_result(&sandbox, "etl-postgres", &["--set", &dsn]);
        let expected = json!([
            {"region": "north", "total": 30.0, "orders": 2, "ids": [1, 2]},
            {"region": "o'south", "total": 12.0, "orders": 1, "ids": [3]},
        ]);
        assert_eq!(totals["rows"], expected);
    }
}

#[test]
fn every_example_is_valid() {
    let output = sandbox().run(&["validate", "examples"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn hello_greets_the_name_in_its_input() {
    let sandbox = sandbox();
    assert_eq!(run_result(&sandbox, "hello", &[]), json!({"greeting": "Hello, Ada"}));
    let grace = run_result(&sandbox, "hello", &["--set", "name=Grace"]);
    assert_eq!(grace, json!({"greeting": "Hello, Grace"}));
}

#[test]
fn quickstart_adds_up_the_orders() {
    let sandbox = sandbox();
    let summary = "8 orders on 5 pages from 3 shops: 200 in all, 25 on average";
    assert_eq!(run_result(&sandbox, "quickstart", &[]), json!({"summary": summary}));
    let failed = sandbox.events("last");
    let failed = failed
        .iter()
        .filter(|event| event["event_type"] == "task.attempt.failed");
    assert_eq!(failed.count(), 1, "the first call for north fails once");
}

#[test]
fn retry_counts_its_attempts_and_handles_a_failure() {
    assert_eq!(
        run_result(&sandbox(), "retry", &[]),
        json!({"attempts": 3, "handled": 3})
    );
    let gave_up = run_result(&sandbox(), "retry", &["--set", "fails=9"]);
    assert_eq!(gave_up["attempts"], 0);
    assert_eq!(gave_up["handled"], "TimeoutError: attempt 3 timed out");
}

#[test]
fn fan_out_meets_again_with_everything_it_gathered() {
    let squares: Vec<u64> = (1..=10).map(|n| n * n).collect();
    let expected = json!({"sum": 385, "squares": squares, "longest": 6});
    assert_eq!(run_result(&sandbox(), "fan-out", &[]), expected);
}

#[test]
fn etl_loads_the_same_totals_twice() {
    let sandbox = sandbox();
    let expected = json!([
        {"region": "north", "total": 30, "orders": 2},
        {"region": "south", "total": 12, "orders": 1},
    ]);
    assert_eq!(run_result(&sandbox, "etl-sqlite", &[])["rows"], expected);
    assert_eq!(run_result(&sandbox, "etl-sqlite", &[])["rows"], expected);
}

#[test]
fn a_transfer_carries_the_same_rows_twice_without_doubling_them() {
    let sandbox = sandbox();
    let expected = json!([{"region": "north", "total": 30}, {"region": "south", "total": 12}]);
    assert_eq!(run_result(&sandbox, "transfer", &[])["rows"], expected);
    assert_eq!(run_result(&sandbox, "transfer", &[])["rows"], expected);
}

#[test]
fn children_return_results_to_their_parent() {
    let sandbox = sandbox();
    assert_eq!(
        run_result(&sandbox, "children", &[]),
        json!({"regions": 3, "letters": 14})
    );
    assert_eq!(
        run_result(&sandbox, "child", &[]),
        json!({"region": "nowhere", "letters": 7})
    );
}

/// 23 patients and 30 visits; the second request gets status 503.
fn clinic_reply(request: &ReceivedRequest, before: usize) -> JsonReply {
    if before == 1 {
        return (503, json!({"error": "busy"}));
    }
    let total = if request.path == "/patients" { 23 } else { 30 };
    let number = |name| request.param(name).and_then(|text| text.parse::<usize>().ok());
    let (page, size) = (number("page").unwrap_or(1), number("pageSize").unwrap_or(10));
    let first = (page - 1) * size;
    let items: Vec<usize> = (first..total.min(first + size)).collect();
    let paging = json!({"page": page, "hasMore": first + size < total});
    (200, json!({"data": items, "paging": paging}))
}

#[test]
fn pagination_reads_every_page_and_retries_a_busy_response() {
    let http = FakeHttpServer::start(clinic_reply);
    let url = format!("api_url={}", http.url());
    let expected = json!({"endpoints": [
        {"path": "/patients", "pages": 3, "items": 23},
        {"path": "/visits", "pages": 2, "items": 30},
    ]});
    assert_eq!(run_result(&sandbox(), "pagination", &["--set", &url]), expected);
    let requests = http.requests();
    assert_eq!(requests.len(), 6, "five pages and one busy response: {requests:?}");
    let key = |n: usize| requests[n].header("idempotency-key").map(str::to_owned);
    assert_eq!(key(1), key(2), "a retry has the idempotency key of the first attempt");
}

#[test]
fn quantum_sweeps_its_angles_and_stores_the_shots_outside_the_log() {
    let sandbox = sandbox();
    let result = run_result(&sandbox, "quantum", &[]);
    assert_eq!(result["shots"], 200_000);
    let best = result["best"].as_f64().expect("the value is an angle");
    assert!((best - std::f64::consts::PI).abs() < 0.001, "{result}");
    let chances: Vec<f64> = serde_json::from_value(result["chances"].clone()).expect("the values are numbers");
    for (chance, expected) in chances.iter().zip([0.0, 0.15, 0.5, 0.85, 1.0]) {
        assert!((chance - expected).abs() < 0.03, "{chances:?}");
    }
    let events = sandbox.events("last");
    let of = |kind: &str, task: &str| {
        let fits = |event: &&Value| event["event_type"] == kind && event["task_label"] == task;
        events.iter().filter(fits).cloned().collect::<Vec<_>>()
    };
    let batches = of("task.done", "collect");
    assert_eq!(batches.len(), 15, "three batches for each of five angles");
    let is_referred = |event: &Value| event["payload"]["result_ref"]["meta"]["sha256"].is_string();
    assert!(batches.iter().all(is_referred), "no batch is in the log");
    assert!(of("task.attempt.failed", "poll").len() >= 5, "jobs are polled");
}

#[test]
fn approvals_continue_after_a_decision() {
    let sandbox = sandbox();
    let mut run = sandbox.start(&["run", "examples/approvals.yaml", "-o", "ndjson"]);
    assert!(run.wait_for_event("task.started", Some("approval")).is_some());
    let output = sandbox.run(&["signal", "last", "decision", "--set", "approved=true"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let (code, lines) = run.finish();
    assert_eq!(code, Some(0));
    let last: Value = serde_json::from_str(lines.last().expect("the run is printed last")).expect("every line is JSON");
    assert_eq!(last["result"], json!({"verdict": "applied"}));
}
