//! User programs that allocate too much memory: the run fails with an error code; the server and other runs continue.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::server_process::ServerProcess;

const HOSTILE: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hostile, path: tests/hostile}
workflow:
  - step: grow
    tool:
      kind: rhai
      code: |
        fn text(n) { let t = "x"; while t.len < 4000000 { t += t; } t + n }
        let all = [];
        for n in 0..1000 { let t = text(n); all.push(|| t); }
        all.len
"#;

const HARMLESS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: harmless, path: tests/harmless}
workflow:
  - step: each
    loop: {in: '{{ range(20) | list }}', iterator: n, spec: {mode: parallel}}
    tool: {kind: rhai, code: 'n * 2', input: {n: '{{ iter.n }}'}}
";

/// Memory limit of the server, far below what the script allocates.
const SERVER_KIB_MAX: u64 = 300 * 1024;

const WIDE: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: wide, path: tests/wide}
workflow:
  - step: hold
    tool: {kind: wait, signal: go}
    next: [{step: write}]
  - step: write
    loop: {in: '{{ range(100) | list }}', iterator: n, spec: {mode: sequential}}
    tool: {kind: noop, result: '{{ ctx.k7 }}', set: {ctx.k7: '{{ iter.n }}'}}
    next: [{step: read}]
  - step: read
    tool: {kind: noop, result: '{{ ctx | length }}'}
";

/// Peak resident memory of a process.
fn peak_kib(process: u32) -> u64 {
    let status = Path::new("/proc").join(process.to_string()).join("status");
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse().unwrap()
}

#[test]
fn a_script_that_exceeds_its_memory_fails_only_its_run() {
    let sandbox = CliSandbox::new();
    sandbox.write("hostile.yaml", HOSTILE);
    sandbox.write("harmless.yaml", HARMLESS);
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    let hostile = sandbox.start(&["run", "hostile.yaml", "-o", "json"]);
    let harmless = sandbox.run(&["run", "harmless.yaml", "-o", "json"]);
    assert_eq!(harmless.code, Some(0), "{harmless:?}");
    let (code, lines) = hostile.finish();
    assert_eq!(code, Some(1), "{lines:?}");
    let events = sandbox.run(&["events", "last", "-o", "ndjson"]);
    let all = sandbox.run(&["runs", "-o", "json"]);
    assert!(
        lines.join("\n").contains("LIMIT_MEMORY"),
        "{lines:?} {events:?} {all:?}"
    );
    let second_output = sandbox.run(&["run", "harmless.yaml", "-o", "json"]);
    assert_eq!(second_output.code, Some(0), "{second_output:?}");
    let peak = peak_kib(server.id());
    assert!(peak < SERVER_KIB_MAX, "{peak} KiB");
}

/// A patch with this number of keys, each with a short name and a small value.
fn patch_body(keys: std::ops::Range<u32>) -> Value {
    let variables: Map<String, Value> = keys.map(|n| (format!("k{n}"), json!(0))).collect();
    json!({"variables": variables})
}

/// `ctx` is limited by its bytes, so it can have about a hundred thousand keys. Writing, rendering and copying it must
/// stay fast and small.
#[tokio::test]
async fn a_ctx_with_as_many_keys_as_fit_is_written_and_read_in_bounded_time_and_memory() {
    let sandbox = CliSandbox::new();
    sandbox.write("wide.yaml", WIDE);
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    let mut run = sandbox.start(&["run", "wide.yaml", "-o", "ndjson"]);
    let event = run.wait_for_event("task.started", Some("hold"));
    let event = event.expect("the task starts");
    let id = event["execution_id"].as_str().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    let url = format!("{}/api/vars/{id}", server.url);
    let write = async |keys: std::ops::Range<u32>| {
        let sent = http.post(&url).json(&patch_body(keys)).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    let million = http.post(&url).json(&patch_body(0..1_000_000)).send().await;
    // The server may close the connection before it has read such a large body.
    let status = million.map_or(413, |response| response.status().as_u16());
    assert!(matches!(status, 413 | 422), "{status}");
    let mut keys = 0;
    let (status, refused) = loop {
        let response = write(keys..keys + 10_000).await;
        if response.0 != 200 {
            break response;
        }
        keys += 10_000;
        assert!(keys < 200_000, "ctx has no limit");
    };
    assert!(keys >= 70_000, "{keys}: {status} {refused}");
    let before = peak_kib(server.id());
    let began = tokio::time::Instant::now();
    let signalled = sandbox.run(&["signal", id, "go"]);
    assert_eq!(signalled.code, Some(0), "{signalled:?}");
    let (code, lines) = run.finish();
    assert_eq!(code, Some(0), "{:?}", lines.last());
    let took = began.elapsed();
    let result = sandbox.run_json(&["result", &format!("{id}/read"), "-o", "json"]);
    assert_eq!(result, json!(keys));
    let grown = peak_kib(server.id()) - before;
    println!("{keys} keys; 100 writes in {took:?}; {before} KiB, {grown} KiB more; {status} {refused}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(before + grown < SERVER_KIB_MAX, "{before} + {grown} KiB");
}
