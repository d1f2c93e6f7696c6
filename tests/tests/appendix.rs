//! Runs the appendix of the language specification with the real binary, against an HTTP server with pages that is
//! sometimes busy, and with SQLite instead of Postgres. The log is the one that the specification implies.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::http::{FakeHttpServer, JsonReply, ReceivedRequest};

/// Payload fields that are the same in every run.
const COMPARED: [&str; 17] = [
    "accepted",
    "action",
    "allow",
    "directive",
    "ended",
    "entry",
    "generation",
    "guards",
    "matched_rule_index",
    "mode",
    "selected",
    "set_ctx",
    "set_iter",
    "stats",
    "to",
    "total",
    "workload",
];

/// Three patients and two visits; the second request for patients gets a busy response twice.
fn clinic_reply(request: &ReceivedRequest, before: usize) -> JsonReply {
    if before == 1 || before == 2 {
        return (503, json!({"error": "busy"}));
    }
    let items: &[u64] = match request.path.as_str() {
        "/patients" => &[11, 12, 13],
        "/visits" => &[21, 22],
        _ => return (404, json!({"error": "not found"})),
    };
    let number = |name| request.param(name).and_then(|text| text.parse::<usize>().ok());
    let (page, size) = (number("page").unwrap_or(1), number("pageSize").unwrap_or(10));
    let first = (page - 1) * size;
    let on_page = &items[first.min(items.len())..items.len().min(first + size)];
    let paging = json!({"page": page, "hasMore": first + size < items.len()});
    (200, json!({"data": on_page, "paging": paging}))
}

fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let playbook = fs::read_to_string(golden.join("appendix.yaml"));
    sandbox.write("appendix.yaml", &playbook.expect("the playbook exists"));
    let db = rusqlite::Connection::open(sandbox.path("clinic.sqlite")).expect("a database can be created");
    db.execute("CREATE TABLE item (path TEXT NOT NULL, id INTEGER NOT NULL)", [])
        .expect("a table can be created");
    sandbox
}

fn result_rows(sandbox: &CliSandbox) -> Vec<(String, i64)> {
    let db = rusqlite::Connection::open(sandbox.path("clinic.sqlite")).expect("the database exists");
    let mut query = db
        .prepare("SELECT path, id FROM item ORDER BY id")
        .expect("the table exists");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows = rows.expect("rows can be read").collect::<Result<_, _>>();
    rows.expect("rows are valid")
}

/// Formats an event as one line, without IDs and times; `None` for events about the assignment of work.
fn event_line(event: &Value) -> Option<String> {
    let kind = event["event_type"].as_str().expect("every event has a type");
    if kind.starts_with("command.") || kind == "loop.iteration.scheduled" {
        return None;
    }
    let mut parts = vec![kind.to_owned()];
    let mut location = event["step"].as_str().unwrap_or_default().to_owned();
    if let Some(index) = event["iteration"].as_u64() {
        location.extend(["#", &index.to_string()]);
    }
    if let Some(task) = event["task_label"].as_str() {
        location.extend(["/", task]);
    }
    if let Some(attempt) = event["attempt"].as_u64().filter(|attempt| *attempt > 1) {
        location.extend(["@", &attempt.to_string()]);
    }
    parts.push(location);
    let outcome = &event["payload"]["outcome"];
    if let Some(status) = outcome["http"]["status"].as_u64() {
        parts.push(format!("http={status}"));
    }
    let payload = event["payload"].as_object().expect("a payload is a map");
    for key in COMPARED {
        let value = payload.get(key).filter(|_| kind != "playbook.execution.requested");
        parts.extend(value.map(|value| format!("{key}={value}")));
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join(" "))
}

#[test]
fn the_appendix_pages_retries_stores_and_leaves_the_expected_log() {
    let (sandbox, http) = (sandbox(), FakeHttpServer::start(clinic_reply));
    let url = format!("api_url={}", http.url());
    let run = sandbox.run_json(&["run", "appendix.yaml", "--set", &url, "-o", "json"]);
    assert_eq!(run["status"], "COMPLETED");
    let counts = json!([{"path": "/patients", "items": 3}, {"path": "/visits", "items": 2}]);
    assert_eq!(run["result"]["rows"], counts);
    let stored: Vec<i64> = result_rows(&sandbox).into_iter().map(|(_, id)| id).collect();
    assert_eq!(stored, [11, 12, 13, 21, 22]);
    assert_eq!(
        http.requests().len(),
        5,
        "three pages, and two attempts with a busy response"
    );
    let lines: Vec<String> = sandbox.events("last").iter().filter_map(event_line).collect();
    let actual = lines.join("\n") + "\n";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/appendix.txt");
    if accepts() {
        fs::write(&golden, &actual).expect("the expected log can be written");
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    assert_eq!(actual, expected);
}

#[test]
fn an_endpoint_that_does_not_exist_takes_the_arc_of_failure() {
    let (sandbox, http) = (sandbox(), FakeHttpServer::start(clinic_reply));
    let url = format!("api_url={}", http.url());
    let nowhere = "endpoints=[{path: /visits, page_size: 2}, {path: /nowhere, page_size: 2}]";
    let args = ["run", "appendix.yaml", "--set", &url, "--set", nowhere, "-o", "json"];
    let run = sandbox.run_json(&args);
    assert_eq!(run["status"], "COMPLETED", "the failure is handled");
    let steps: Vec<&Value> = run["steps"].as_array().into_iter().flatten().collect();
    let of = |name: &str| steps.iter().find(|step| step["step"] == name);
    assert_eq!(
        of("fetch_transform_store").map(|step| &step["status"]),
        Some(&json!("failed"))
    );
    assert!(of("cleanup").is_some() && of("validate_results").is_none());
    assert_eq!(result_rows(&sandbox), [], "stored rows are cleaned up");
}

#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn accepts() -> bool {
    std::env::var_os("NOETL_ACCEPT").is_some()
}
