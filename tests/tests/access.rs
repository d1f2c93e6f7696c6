//! Results by reference, with the real binary: read by address, used in loops, read as files, recomputed after a
//! loss, and garbage collected when they expire.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, CommandOutput, noetl_path};

const ARTIFACTS: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: artifacts, path: tests/artifacts}
workflow:
  - step: make
    tool:
      - rows:
          kind: python
          code: "result = {'rows': [{'n': n, 'text': 'x' * 100} for n in range(5000)], 'name': 'rows'}"
    next: {arcs: [{step: look}]}
  - step: look
    tool:
      - whole: {kind: artifact, action: get, ref: "{{ make }}"}
      - some: {kind: result, action: get, result_ref: "{{ make._ref }}", slice: [10, 12]}
      - deep: {kind: resolve, ref: "{{ make.rows }}", slice: "4999.."}
      - address: {kind: artifact, uri: "{{ make._uri }}"}
      - named: {kind: artifact, uri: "noetl://execution/{{ execution_id }}/result/make/rows"}
      - kept: {kind: artifact, action: put, data: {small: 1}}
      - again: {kind: artifact, ref: "{{ kept }}"}
      - listed: {kind: artifact, action: list, uri: "noetl://execution/{{ execution_id }}/step/make"}
      - given_up: {kind: artifact, action: delete, ref: "{{ make }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool:
      - report:
          kind: noop
          result:
            rows: "{{ look.whole.rows | length }}"
            size: "{{ look.whole.size_bytes > 500000 }}"
            some: "{{ look.some.data | map(attribute='n') | list }}"
            total: "{{ look.some.total }}"
            last: "{{ look.deep.data[0].n }}"
            address: "{{ look.address.name }}"
            named: "{{ look.named.name }}"
            kept: "{{ look.kept.small }}"
            kept_bytes: "{{ look.kept.size_bytes }}"
            again: "{{ look.again.data }}"
            listed: "{{ look.listed.count }}"
            given_up: "{{ look.given_up.deleted }}"
"#;

fn expected_result() -> Value {
    json!({
        "rows": 5000, "size": true, "some": [10, 11], "total": 5000, "last": 4999, "address": "rows", "named": "rows",
        "kept": 1, "kept_bytes": 11, "again": {"small": 1}, "listed": 1, "given_up": true,
    })
}

#[test]
fn results_are_read_by_reference_and_by_address() {
    let sandbox = CliSandbox::new();
    sandbox.write("artifacts.yaml", ARTIFACTS);
    assert_eq!(sandbox.run_json(&["run", "artifacts.yaml"]), expected_result());
}

/// A server without slots, and a separate worker.
struct ServerWithWorker(Vec<Child>, String);

impl ServerWithWorker {
    fn start(sandbox: &CliSandbox) -> Self {
        let serve = [
            "serve",
            "--store",
            "kept",
            "--listen",
            "127.0.0.1:0",
            "--local-slots",
            "0",
        ];
        let mut child = sandbox
            .command(&serve)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stderr = BufReader::new(child.stderr.take().expect("its output is piped"));
        let mut lines = stderr.lines().map_while(Result::ok);
        let ready = lines
            .find(|line| line.contains("listening on"))
            .expect("the server starts");
        let url = ready
            .split_whitespace()
            .nth(2)
            .expect("the line contains a URL")
            .to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        let worker = sandbox
            .command(&["worker", "--server", &url])
            .stderr(Stdio::null())
            .spawn();
        Self(vec![child, worker.expect("the worker starts")], url)
    }
}

impl Drop for ServerWithWorker {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_remote_worker_reads_results_through_its_server() {
    let sandbox = CliSandbox::new();
    sandbox.write("artifacts.yaml", ARTIFACTS);
    let cluster = ServerWithWorker::start(&sandbox);
    let output = sandbox.run(&["run", "artifacts.yaml", "--server", &cluster.1, "-o", "json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.json()["result"], expected_result());
}

const OTHER_RUN: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: other, path: tests/other}
workload: {address: ""}
workflow:
  - step: each
    loop: {in: "{{ workload.address }}", iterator: row, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop, result: "{{ iter.row.n }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {sum: "{{ each.data | sum }}", count: "{{ each.data | length }}"}}
"#;

const LIST: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: list, path: tests/list}
workflow:
  - step: end
    tool:
      - rows:
          kind: python
          code: "result = [{'n': n, 'text': 'x' * 1500} for n in range(1000)]"
"#;

#[test]
fn a_loop_runs_over_the_result_of_another_run() {
    let sandbox = CliSandbox::new();
    sandbox.write("list.yaml", LIST);
    sandbox.write("other.yaml", OTHER_RUN);
    assert_eq!(sandbox.run(&["run", "list.yaml"]).code, Some(0));
    let id = sandbox.run_json(&["runs", "-o", "json"])[0]["execution_id"].clone();
    let id = id.as_str().expect("ids are strings");
    let address = format!("address=noetl://execution/{id}/result/end");
    let result = sandbox.run_json(&["run", "other.yaml", "--set-string", &address]);
    assert_eq!(result, json!({"sum": 499_500, "count": 1000}));
}

/// Four pages of 3,000 rows, more than a template may load in a guard; then a task for each row.
const PAGES: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pages, path: tests/pages}
workflow:
  - step: fetch
    tool:
      - begin:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1}}}}]}}
      - page:
          kind: python
          input: {page: "{{ iter.page }}"}
          code: "result = {'rows': [{'n': page * 10000 + n, 'text': 'x' * 200} for n in range(3000)]}"
          spec:
            result: {accumulate: {strategy: append, merge_path: "$.rows"}}
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - when: "{{ iter.page < 4 }}"
                  then: {do: jump, to: page, set_iter: {page: "{{ iter.page + 1 }}"}}
                - else: {then: {do: break}}
    next: each
  - step: each
    loop: {in: "{{ fetch }}", iterator: row, spec: {mode: parallel, max_in_flight: 20}}
    tool:
      - take:
          kind: noop
          result: 1
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ iter.row.n }}"}}}}}]}}
    next: {arcs: [{step: some, when: "{{ event.name == 'loop.done' }}"}]}
  - step: some
    tool:
      - slice: {kind: artifact, ref: "{{ fetch }}", slice: [2999, 3001]}
    next: end
  - step: end
    tool: {kind: noop, result: {sum: "{{ ctx.sum }}", some: "{{ some.data | map(attribute='n') | list }}"}}
"#;

#[test]
fn a_loop_runs_over_pages_that_were_collected() {
    let sandbox = CliSandbox::new();
    sandbox.write("pages.yaml", PAGES);
    // 3,000 times (10,000 + 20,000 + 30,000 + 40,000), and four times 0 + 1 + … + 2,999.
    let expected = json!({"sum": 300_000_000 + 4 * 4_498_500, "some": [12_999, 20_000]});
    assert_eq!(sandbox.run_json(&["run", "pages.yaml"]), expected);
    let cluster = ServerWithWorker::start(&sandbox);
    let there = sandbox.run_json(&["run", "pages.yaml", "--server", &cluster.1]);
    assert_eq!(there, expected);
}

const FILES: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: files, path: tests/files}
workflow:
  - step: make
    tool:
      - rows:
          kind: python
          code: "result = {'data': [{'n': n, 'text': 'x' * 100} for n in range(5000)]}"
      - lines:
          kind: python
          code: "result = {'data': 'n\\n' + '1\\n' * 50000}"
      - small: {kind: noop, result: {a: 1}}
    next: {arcs: [{step: read}]}
  - step: read
    tool:
      - count: {kind: shell, command: "wc -c < {{ make.rows._file }}"}
      - python:
          kind: python
          input: {path: "{{ make.rows.data._file }}"}
          code: |
            import json, os
            result = {"rows": len(json.load(open(path))), "read_only": oct(os.stat(path).st_mode & 0o777), "path": path}
      - text: {kind: shell, command: "head -2 {{ make.lines.data._file }} | tail -1"}
      - small: {kind: shell, command: "cat {{ make.small._file }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool:
      - report:
          kind: noop
          result:
            bytes: "{{ read.count.stdout | trim | int > 500000 }}"
            rows: "{{ read.python.rows }}"
            mode: "{{ read.python.read_only }}"
            path: "{{ read.python.path }}"
            text: "{{ read.text.stdout | trim }}"
            small: "{{ read.small.stdout | trim }}"
"#;

#[test]
fn programs_read_results_as_files_that_are_deleted_with_their_step() {
    let sandbox = CliSandbox::new();
    sandbox.write("files.yaml", FILES);
    let result = sandbox.run_json(&["run", "files.yaml"]);
    assert_eq!(result["bytes"], true);
    assert_eq!((&result["rows"], &result["text"]), (&json!(5000), &json!("1")));
    assert_eq!(
        (&result["mode"], &result["small"]),
        (&json!("0o444"), &json!(r#"{"a":1}"#))
    );
    let path = result["path"].as_str().expect("the value is a path");
    assert!(!sandbox.path(path).exists(), "{path} was left");
}

const LOST: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lost, path: tests/lost}
workload: {spoil: "rm -f"}
workflow:
  - step: work
    tool:
      - make:
          kind: python
          code: "result = {'data': ['x' * 100] * 60000}"
          spec: {result: {store: {compression: none}}}
      - spoil:
          kind: shell
          command: |
            if [ ! -e spoilt ]; then touch spoilt; for f in $(find .noetl/bodies -type f -size +1000k); do {{ workload.spoil | raw_sh }} $f; done; fi
      - read:
          kind: noop
          result: "{{ make.data | length }}"
          spec:
            policy:
              rules:
                - when: "{{ outcome.error.code in ['REFERENCE_NOT_AVAILABLE', 'REFERENCE_CORRUPT'] }}"
                  then: {do: jump, to: make, set_ctx: {seen: "{{ outcome.error.code }}"}}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {count: "{{ work.read.data }}", seen: "{{ ctx.seen }}"}}
"#;

#[test]
fn a_body_that_is_lost_or_damaged_is_made_again() {
    for (spoil, code) in [
        ("rm -f", "REFERENCE_NOT_AVAILABLE"),
        ("truncate -s -1", "REFERENCE_CORRUPT"),
    ] {
        let sandbox = CliSandbox::new();
        sandbox.write("lost.yaml", LOST);
        let spoil = format!("spoil={spoil}");
        let result = sandbox.run_json(&["run", "lost.yaml", "--set-string", &spoil]);
        assert_eq!(result, json!({"count": 60000, "seen": code}));
    }
}

const LOST_ELEMENTS: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lost_elements, path: tests/lost_elements}
workload: {when: before}
workflow:
  - step: make
    tool:
      kind: python
      code: "result = {'data': ['x' * 30000] * 100}"
      spec: {result: {store: {compression: none}}}
    next: {arcs: [{step: pass}]}
  - step: pass
    tool: &spoil
      kind: python
      input: {now: before, when: "{{ workload.when }}", seen: "{{ ctx.seen | default('') }}"}
      code: |
        import pathlib
        if now == when and not seen:
            for file in pathlib.Path(".noetl/bodies").rglob("*"):
                if file.is_file() and file.stat().st_size > 1000000:
                    file.unlink()
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ make.data }}", iterator: text}
    tool:
      - spoil:
          <<: *spoil
          input: {now: "{{ 'during' if iter.index == 0 else '' }}", when: "{{ workload.when }}", seen: "{{ ctx.seen | default('') }}"}
      - count: {kind: noop, result: "{{ text | length }}"}
    next:
      arcs:
        - {step: end, when: "{{ event.name == 'loop.done' }}"}
        - {step: make, when: "{{ each.error.code == 'REFERENCE_NOT_AVAILABLE' }}", set: {seen: "{{ each.error.code }}"}}
  - step: end
    tool: {kind: noop, result: {sum: "{{ each.data | sum }}", seen: "{{ ctx.seen }}"}}
"#;

#[test]
fn the_elements_of_a_loop_that_are_lost_are_made_again() {
    for when in ["before", "during"] {
        let sandbox = CliSandbox::new();
        sandbox.write("lost.yaml", LOST_ELEMENTS);
        let result = sandbox.run_json(&["run", "lost.yaml", "--set", &format!("when={when}")]);
        let expected = json!({"sum": 3_000_000, "seen": "REFERENCE_NOT_AVAILABLE"});
        assert_eq!(result, expected, "{when}");
    }
}

const PARTS: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parts, path: tests/parts}
workload: {pad: 10}
workflow:
  - step: pages
    tool:
      - fetch:
          kind: python
          input: {page: "{{ iter.page | default(0) }}", pad: "{{ workload.pad }}"}
          code: |
            rows = [[1, 2], [], None, 7, {"a": 1}, "text", [3]]
            result = {"pad": "x" * pad, "page": page}
            if rows[page] is not None:
                result["rows"] = rows[page]
          spec:
            result: {accumulate: {strategy: append, merge_path: "$.rows"}, store: {compression: none}}
            policy:
              rules:
                - when: "{{ (iter.page | default(0)) < 6 }}"
                  then: {do: jump, to: fetch, set_iter: {page: "{{ (iter.page | default(0)) + 1 }}"}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ pages.data }}"}
"#;

#[test]
fn large_parts_add_what_small_ones_do() {
    for pad in [10, 300_000] {
        let sandbox = CliSandbox::new();
        sandbox.write("parts.yaml", PARTS);
        let result = sandbox.run_json(&["run", "parts.yaml", "--set", &format!("pad={pad}")]);
        assert_eq!(result, json!([1, 2, 7, {"a": 1}, "text", 3]), "{pad}");
    }
}

const ASKED: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asked, path: tests/asked}
workflow:
  - step: make
    tool: {kind: python, code: "result = {'data': ['x' * 100] * 20000, 'total': 7}"}
    next:
      arcs:
        - {step: end, when: "{{ make.total == 7 and make.data | length == 20000 }}"}
  - step: end
    tool: {kind: noop}
"#;

#[test]
fn a_guard_does_not_load_a_large_body() {
    let sandbox = CliSandbox::new();
    sandbox.write("asked.yaml", ASKED);
    let output = sandbox.run(&["run", "asked.yaml"]);
    assert_ne!(output.code, Some(0));
    assert!(output.stderr.contains("BODY_TOO_LARGE"), "{output:?}");
    assert!(output.stderr.contains("select"), "{output:?}");
}

const SCOPES: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: scopes, path: tests/scopes}
workflow:
  - step: make
    tool:
      - permanent: {kind: python, code: "result = 'p' * 100000", spec: {result: {store: {scope: permanent}}}}
      - execution: {kind: python, code: "result = 'e' * 100000"}
      - short: {kind: python, code: "result = 's' * 100000", spec: {result: {store: {scope: permanent, ttl: "1ms"}}}}
      - step: {kind: python, code: "result = 't' * 100000", spec: {result: {store: {scope: step}}}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: done}
"#;

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(list_files(&path));
        } else if path.file_name().is_some_and(|name| name.len() == 62) {
            all.push(path);
        }
    }
    all
}

/// Sets the file times of the bodies back by two days, so that garbage collection considers them.
fn age_bodies(sandbox: &CliSandbox) {
    for file in list_files(&sandbox.path(".noetl/bodies")) {
        let file = std::fs::File::options()
            .append(true)
            .open(file)
            .expect("the file exists");
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
        let before = SystemTime::UNIX_EPOCH + now.saturating_sub(Duration::from_secs(2 * 24 * 3600));
        file.set_modified(before).expect("file times can be set");
    }
}

fn collected_count(output: &CommandOutput) -> u64 {
    assert_eq!(output.code, Some(0), "{output:?}");
    output.json()["bodies"].as_u64().expect("the value is a count")
}

#[test]
fn an_expired_body_is_deleted_and_reading_it_reports_so() {
    let sandbox = CliSandbox::new();
    sandbox.write("scopes.yaml", SCOPES);
    assert_eq!(sandbox.run(&["run", "scopes.yaml"]).code, Some(0));
    assert_eq!(
        collected_count(&sandbox.run(&["gc", "-o", "json", "--retention", "0s"])),
        0,
        "all results are too new"
    );
    age_bodies(&sandbox);
    assert_eq!(collected_count(&sandbox.run(&["gc", "-o", "json", "--dry-run"])), 2);
    assert_eq!(list_files(&sandbox.path(".noetl/bodies")).len(), 4);
    assert_eq!(
        collected_count(&sandbox.run(&["gc", "-o", "json"])),
        2,
        "the step has ended and the `ttl` has expired"
    );
    assert_eq!(
        collected_count(&sandbox.run(&["gc", "-o", "json", "--retention", "0s"])),
        1,
        "the run has ended"
    );
    assert_eq!(
        list_files(&sandbox.path(".noetl/bodies")).len(),
        1,
        "a permanent result is kept"
    );
    let id = sandbox.run_json(&["runs", "-o", "json"])[0]["execution_id"].clone();
    let address = format!(
        "noetl://execution/{}/result/make/short",
        id.as_str().unwrap_or_default()
    );
    sandbox.write("ask.yaml", &ASK.replace("ADDRESS", &address));
    let output = sandbox.run(&["run", "ask.yaml"]);
    assert!(output.stderr.contains("REFERENCE_NOT_AVAILABLE"), "{output:?}");
    assert!(output.stderr.contains("expired"), "{output:?}");
}

const ASK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: ask, path: tests/ask}
workflow:
  - step: end
    tool: {kind: artifact, uri: "ADDRESS"}
"#;

const LARGE: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {url: ""}
workflow:
  - step: fetch
    tool: {kind: http, url: "{{ workload.url }}", timeout: 300}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ fetch.data }}", iterator: row, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: noop, result: "{{ iter.row.id }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {count: "{{ each.data | length }}", sum: "{{ each.data | sum }}"}}
"#;

const ROWS: u64 = 2_000;
const ROW_BYTES: usize = 100_000;

/// Serves a list of 200 MB.
fn serve_large() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a local port is free");
    let url = format!("http://{}/", listener.local_addr().expect("the socket is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut lines = BufReader::new(stream.try_clone().expect("the socket can be cloned")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[";
            let mut sent = stream.write_all(head.as_bytes());
            let text = "x".repeat(ROW_BYTES);
            for id in 0..ROWS {
                let comma = if id == 0 { "" } else { "," };
                let row = format!("{comma}{{\"id\":{id},\"text\":\"{text}\"}}");
                sent = sent.and_then(|()| stream.write_all(row.as_bytes()));
            }
            let _ = sent.and_then(|()| stream.write_all(b"]"));
        }
    });
    url
}

fn peak_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_loop_over_two_hundred_megabytes_does_not_buffer_them() {
    let sandbox = CliSandbox::new();
    sandbox.write("large.yaml", LARGE);
    let url = format!("url={}", serve_large());
    let mut command: Command = sandbox.command(&["run", "large.yaml", "--set-string", &url]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the process starts");
    let id = child.id();
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(now) = peak_kib(id) {
            peak = now;
            std::thread::sleep(Duration::from_millis(20));
        }
        peak
    });
    let out = child.stdout.take().expect("its output is piped");
    let result: Value = serde_json::from_reader(out).expect("the process prints its result");
    child.wait().expect("the process exits");
    let peak = watch.join().expect("the memory watcher does not panic");
    assert_eq!(result, json!({"count": ROWS, "sum": ROWS * (ROWS - 1) / 2}));
    assert!(
        peak < 120 * 1024,
        "{peak} KiB for a list of 200 MB; see {}",
        noetl_path().display()
    );
}
