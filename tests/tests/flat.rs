//! Gigabytes of pages, a loop over all their rows, and a join: memory stays constant and the log stays small.

use std::fs;

use serde_json::json;
use tests::cli_sandbox::CliSandbox;
use tests::http::FakeHttpServer;
use tests::server_process::{ServerProcess, spawn_process, wait_for_line};

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flat, path: tests/flat}
workload: {api: ""}
workflow:
  - step: fetch
    tool:
      - page:
          kind: http
          url: "{{ workload.api }}/rows?page={{ iter.page | default(1) }}"
          spec:
            result:
              accumulate: {strategy: append, merge_path: "$.data.rows"}
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - when: "{{ outcome.result.data.has_more }}"
                  then: {do: jump, to: page, set_iter: {page: "{{ (iter.page | default(1)) + 1 }}"}}
                - else: {then: {do: break}}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ fetch }}", iterator: row, spec: {mode: parallel, max_in_flight: 50}}
    tool:
      - take: {kind: noop, result: "{{ iter.row.id }}"}
    next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}"}]}
  - step: end
    tool:
      - sum: {kind: noop, result: {rows: "{{ each.stats.total }}", sum: "{{ each.data | sum }}"}}
"#;

const PAGES: u64 = 250;
const ROWS: u64 = 200;
/// Text of each row: it makes a page of 8 MB, and 2 GB in total.
const ROW_BYTES: usize = 40_000;

/// Peak resident memory of a process in bytes.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is running");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let text = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = text.and_then(|text| text.parse().ok()).expect("a size");
    kib * 1024
}

#[test]
fn two_gigabytes_pass_through_flat_memory_and_leave_a_small_log() {
    let api = FakeHttpServer::start(|request, _| {
        let page: u64 = request
            .param("page")
            .and_then(|page| page.parse().ok())
            .expect("a page");
        let row = |n: u64| json!({"id": (page - 1) * ROWS + n, "text": "x".repeat(ROW_BYTES)});
        let rows: Vec<_> = (0..ROWS).map(row).collect();
        (200, json!({"has_more": page < PAGES, "rows": rows}))
    });
    let sandbox = CliSandbox::new();
    sandbox.write("flat.yaml", PLAYBOOK);
    let server = ServerProcess::start_as_context(&sandbox, &["--local-slots", "0"]);
    let (mut worker, mut stderr) = spawn_process(&sandbox, &["worker", "--server", &server.url]);
    wait_for_line(&mut stderr, "started worker");
    let idle = peak_bytes(server.id());
    let api = format!("api={}", api.url());
    let result = sandbox.run_json(&["run", "flat.yaml", "--set", &api]);
    let grown = peak_bytes(server.id()) - idle;
    let peak = peak_bytes(worker.id());
    worker.kill().expect("the worker can be killed");
    worker.wait().expect("the worker has exited");
    let rows = PAGES * ROWS;
    assert_eq!(result, json!({"rows": rows, "sum": rows * (rows - 1) / 2}));
    assert!(grown < 64_000_000, "the server grew by {grown} bytes");
    assert!(peak < 256_000_000, "the worker used {peak} bytes");
    drop(server);
    let store = rusqlite::Connection::open(sandbox.path("kept/noetl.db")).expect("the store can be opened");
    let sum = "SELECT sum(length(payload)) FROM event WHERE iteration IS NOT NULL";
    let bytes: i64 = store.query_row(sum, [], |row| row.get(0)).expect("a sum");
    assert!(bytes < 200 * rows.cast_signed(), "{bytes} bytes for {rows} iterations");
}
