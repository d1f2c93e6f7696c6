//! Results that are too large for memory are streamed, and the description of a run stays small.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::http::FakeHttpServer;
use tests::server_process::ServerProcess;

const FETCH: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fetch, path: tests/fetch}
workload: {api: ""}
workflow:
  - step: fetch
    tool: {kind: http, url: "{{ workload.api }}/rows"}
"#;

const LOOP: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: tests/loop}
workload: {count: 1}
workflow:
  - step: each
    loop:
      in: "{{ range(workload.count | int) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 8}
    tool: {kind: noop, result: "{{ iter.n }}"}
"#;

const ROWS: usize = 400_000;

/// Peak resident memory of a process in bytes.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is running");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let text = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = text.and_then(|text| text.parse().ok()).expect("a size");
    kib * 1024
}

/// Reads the output of a command, and its memory when nearly all of it was read.
fn read_printed(sandbox: &CliSandbox, args: &[&str], bytes_min: usize) -> (Vec<u8>, u64) {
    let mut command = sandbox.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    let mut out = child.stdout.take().expect("its output is piped");
    let mut text = vec![0; bytes_min];
    // The last part stays in the pipe, so that the process cannot exit before its memory is read.
    out.read_exact(&mut text).expect("the process prints this much");
    let peak = peak_bytes(child.id());
    out.read_to_end(&mut text).expect("the process prints the last part");
    assert!(child.wait().expect("the process exits").success());
    (text, peak)
}

#[test]
fn a_result_of_many_rows_is_printed_as_it_is_read() {
    let api = FakeHttpServer::start(|_, _| {
        let rows = (0..ROWS).map(|id| json!({"id": id, "name": "a row", "tags": ["x", "y"], "value": 0.5}));
        (200, json!({"rows": rows.collect::<Vec<_>>()}))
    });
    let sandbox = CliSandbox::new();
    sandbox.write("fetch.yaml", FETCH);
    let api = format!("api={}", api.url());
    let bytes_min = ROWS * 50;
    let run = ["run", "fetch.yaml", "--set", &api, "-o", "json"];
    let (text, peak) = read_printed(&sandbox, &run, bytes_min);
    assert!(peak < 120_000_000, "`run` used {peak} bytes");
    let report: Value = serde_json::from_slice(&text).expect("the output is JSON");
    assert_eq!(report["status"], "COMPLETED");
    assert_eq!(report["result"]["data"]["rows"][ROWS - 1]["id"], ROWS - 1);
    let result = ["result", "last", "-o", "json"];
    let (text, peak) = read_printed(&sandbox, &result, bytes_min);
    assert!(peak < 120_000_000, "`result` used {peak} bytes");
    let result: Value = serde_json::from_slice(&text).expect("the output is JSON");
    assert_eq!(result, report["result"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_described_without_its_large_result() {
    let sandbox = CliSandbox::new();
    sandbox.write("loop.yaml", LOOP);
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    for (count, is_small) in [(1_000, true), (3_000, false)] {
        let count_is = format!("count={count}");
        let ran = sandbox.run(&["run", "loop.yaml", "--set", &count_is, "-o", "json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).expect("the output is JSON");
        let id = report["execution_id"].as_str().expect("an id");
        let all: Value = (0..count).collect();
        assert_eq!(report["result"], all);
        let described = get(&format!("{}/api/executions/{id}", server.url)).await;
        if is_small {
            assert_eq!(described["result"], all);
            assert!(described.get("result_href").is_none());
            continue;
        }
        assert_eq!(described["result"], Value::Null);
        let href = described["result_href"]
            .as_str()
            .expect("the message names the location");
        let result = get(&format!("{}{href}", server.url)).await;
        assert_eq!(result["result"], all);
    }
}

async fn get(url: &str) -> Value {
    // A process must choose its TLS provider once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = reqwest::Client::new().get(url);
    let response = request.send().await.expect("the server responds");
    response.json().await.expect("the response is JSON")
}
