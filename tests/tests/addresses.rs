//! Results by address: step, iteration, task, page and attempt, with the command line, locally and on a server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;

/// Two cities. The first has two pages; the second page needs two attempts. A page is a list of 3 numbers.
const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lattice, path: tests/lattice}
workload: {cap: 65536}
workflow:
  - step: read
    loop: {in: [2, 1], iterator: pages}
    tool:
      - init: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1}}}}]}}}
      - fetch:
          kind: noop
          result: {items: ["{{ iter.index }}", "{{ iter.page }}", "{{ _attempt }}"], text: "{{ 'x' * 100 }}"}
          spec:
            result: {CAP accumulate: {merge_path: $.items}}
            policy:
              rules:
                - {when: "{{ iter.page == 2 and _attempt < 2 }}", then: {do: retry, delay: 0}}
                - {when: "{{ iter.page < pages }}", then: {do: jump, to: fetch, set_iter: {page: "{{ iter.page + 1 }}"}}}
    next: end
  - step: end
    tool:
      - total: {kind: noop, result: {all: "{{ read.data }}"}}
"#;

fn read_address(sandbox: &CliSandbox, extra_args: &[&str]) -> Value {
    let args: Vec<&str> = ["result"].iter().chain(extra_args).copied().collect();
    sandbox.run_json(&[&args[..], &["-o", "json"]].concat())
}

fn check_addresses(sandbox: &CliSandbox) {
    let read = |extra_args: &[&str]| read_address(sandbox, extra_args);
    let pages = json!([[0, 1, 1, 0, 2, 2], [1, 1, 1]]);
    assert_eq!(read(&["last"]), json!({"all": pages}));
    assert_eq!(read(&["last/read"]), pages);
    assert_eq!(read(&["last", "read"]), pages);
    assert_eq!(read(&["last/read#0"]), pages[0]);
    assert_eq!(read(&["last/read#0/fetch"]), pages[0]);
    assert_eq!(read(&["last/read/fetch"]), pages[1]);
    let second = read(&["last/read#0", "--page", "2"]);
    assert_eq!(second["items"], json!([0, 2, 2]));
    let first_try = read(&["last/read", "--iteration", "0", "--page", "2", "--attempt", "1"]);
    assert_eq!(first_try["items"], json!([0, 2, 1]));
    assert_eq!(read(&["last/end", "--task", "total"])["all"], pages);
    assert_eq!(read(&["last/read#0", "--path", "[3]"]), json!(0));
    let listed = read(&["last/read#0/fetch", "--list"]);
    let listed: Vec<&Value> = listed.as_array().expect("a list").iter().collect();
    let of = |key: &str| listed.iter().map(|entry| entry[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("page"), [json!(1), json!(2), Value::Null]);
    assert_eq!(of("attempt"), [json!(1), json!(2), json!(0)]);
    assert_eq!(listed[2]["reference"]["kind"], "manifest");
    let lines = sandbox.run(&["result", "last/read", "-o", "ndjson"]);
    assert_eq!(lines.stdout, "[0,1,1,0,2,2]\n[1,1,1]\n");
    let raw = sandbox.run(&["result", "last/read", "--raw"]);
    assert_eq!(raw.stdout, "[[0,1,1,0,2,2],[1,1,1]]");
    let tree = sandbox.run(&["result", "last/read#1", "--tree"]);
    assert_eq!(tree.stdout, "├─ 0: 1\n├─ 1: 1\n└─ 2: 1\n");
    let missing = sandbox.run(&["result", "last/read#7"]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert!(missing.stderr.contains("--list"), "{missing:?}");
    let nowhere = sandbox.run(&["result", "last", "--page", "1"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
}

/// Tasks of a loop that always succeed, that fail in the end, and that always fail.
const LOOP_TASKS: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: ends, path: tests/ends}
workflow:
  - step: each
    loop: {in: [0, 1, 2], iterator: n}
    tool:
      - always: {kind: noop, result: "{{ iter.n }}"}
      - some:
          kind: shell
          command: "test {{ iter.n }} -lt 2 && echo {{ iter.n }}"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - never:
          kind: shell
          command: "exit 1{{ iter.n }}"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
"#;

#[test]
fn the_address_of_a_task_of_a_loop_is_its_latest_result_or_else_its_latest_failure() {
    let sandbox = CliSandbox::new();
    sandbox.write("ends.yaml", LOOP_TASKS);
    sandbox.run_json(&["run", "ends.yaml", "-o", "json"]);
    assert_eq!(read_address(&sandbox, &["last/each/always"]), json!(2));
    assert_eq!(read_address(&sandbox, &["last/each/some"])["stdout"], "1\n");
    assert_eq!(read_address(&sandbox, &["last/each/never"])["exit_code"], 12);
    let absent = sandbox.run(&["result", "last/each/absent"]);
    assert_eq!(absent.code, Some(4), "{absent:?}");
}

#[test]
fn every_inline_result_is_found_by_its_address() {
    let sandbox = CliSandbox::new();
    sandbox.write("lattice.yaml", &PLAYBOOK.replace("CAP ", ""));
    sandbox.run_json(&["run", "lattice.yaml", "-o", "json"]);
    check_addresses(&sandbox);
}

#[test]
fn every_result_outside_the_log_is_found_by_its_address() {
    let sandbox = CliSandbox::new();
    sandbox.write("lattice.yaml", &PLAYBOOK.replace("CAP ", "inline_max_bytes: 64, "));
    sandbox.run_json(&["run", "lattice.yaml", "-o", "json"]);
    check_addresses(&sandbox);
    let references = read_address(&sandbox, &["last", "--list"]);
    let kinds: Vec<&Value> = references
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| &entry["reference"]["kind"])
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "manifest").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "result_ref").count(), 3);
}

/// A server that runs until the end of the test.
struct ServeCommand(Child);

impl Drop for ServeCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on a free port; returns its URL.
fn serve(sandbox: &CliSandbox) -> (ServeCommand, String) {
    let args = ["serve", "--store", "kept", "--listen", "127.0.0.1:0"];
    let mut command = sandbox.command(&args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let stderr = child.stderr.take().expect("its output is piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let ready = lines.find(|line| line.starts_with("listening on"));
    let ready = ready.expect("the server starts");
    let url = ready.split_whitespace().nth(2).expect("the line contains a URL");
    let url = url.to_owned();
    // Keeps reading the pipe; the server would fail to write to a closed one.
    std::thread::spawn(move || lines.for_each(drop));
    (ServeCommand(child), url)
}

async fn get(url: &str, params: &[(&str, &str)]) -> Value {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = reqwest::Client::new().get(url).query(params);
    let response = request.send().await.expect("the server responds");
    assert!(response.status().is_success(), "{url} {params:?}: {response:?}");
    let bytes = response.bytes().await.expect("a complete response");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_finds_every_result_by_its_address() {
    let sandbox = CliSandbox::new();
    sandbox.write("lattice.yaml", &PLAYBOOK.replace("CAP ", ""));
    let (_served, url) = serve(&sandbox);
    let added = sandbox.run(&["context", "add", "here", "--server", &url]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let run = sandbox.run_json(&["run", "lattice.yaml", "-o", "json"]);
    check_addresses(&sandbox);
    let id = run["execution_id"].as_str().expect("an id");
    let results = format!("{url}/api/result/{id}");
    let params = [("step", "read"), ("iteration", "0"), ("task", "fetch")];
    let listed = get(&format!("{results}/list"), &params).await;
    let manifest = &listed["results"][2]["reference"]["ref"];
    let manifest = manifest.as_str().expect("an address");
    let resolve = format!("{url}/api/result/resolve");
    let all = get(&resolve, &[("ref", manifest)]).await;
    assert_eq!(all, json!([0, 1, 1, 0, 2, 2]));
    let written = get(&resolve, &[("ref", manifest), ("form", "manifest")]).await;
    assert_eq!(written["kind"], "manifest");
    assert_eq!(written["merge_path"], "$.items");
    let pages = [json!([0, 1, 1]), json!([0, 2, 2])];
    for (part, items) in written["parts"].as_array().expect("parts").iter().zip(pages) {
        let address = part["ref"].as_str().expect("an address");
        let body = get(&resolve, &[("ref", address)]).await;
        assert_eq!((&body["items"], &part["page"]), (&items, &items[1]));
    }
}
