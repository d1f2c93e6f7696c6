//! Loops whose results are too many or too large for one event: every reader gets all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use model::id::Seq;
use model::step_pointer::LoopPointer;
use serde_json::{Value, json};
use server::{LocatedResult, ResultAddress, ResultReader, ResultSelector};
use store::Store;
use store::contract::{FinishedLoop, LOOP_APPEND_ITERATIONS, finish_loop, log_rows_read};
use tests::cli_sandbox::CliSandbox;
use tests::server_process::ServerProcess;

/// Maximum memory of a server that runs a million iterations: a list of their numbers alone would take half of it.
const MEMORY_MAX: u64 = 128_000_000;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {count: 1500, size: 1}
workflow:
  - step: many
    loop:
      in: "{{ range(workload.count | int) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 8}
    tool:
      - part:
          kind: noop
          result: {n: "{{ iter.n }}", text: "{{ 'x' * (workload.size | int) }}"}
    next:
      arcs:
        - step: end
          args:
            count: "{{ many.data | length }}"
            sum: "{{ many.data | map(attribute='n') | sum }}"
            last: "{{ (many.data | last).n }}"
  - step: end
    tool:
      - report:
          kind: noop
          result:
            arc: "{{ args }}"
            step: "{{ many.data | map(attribute='n') | sum }}"
"#;

fn run_large(count: u64, size: u64) {
    let sandbox = CliSandbox::new();
    sandbox.write("large.yaml", PLAYBOOK);
    let (count_is, size_is) = (format!("count={count}"), format!("size={size}"));
    let args = ["run", "large.yaml", "--set", &count_is, "--set", &size_is];
    let sum = count * (count - 1) / 2;
    let arc = json!({"count": count, "sum": sum, "last": count - 1});
    assert_eq!(sandbox.run_json(&args), json!({"arc": arc, "step": sum}));
}

#[test]
fn more_results_than_fit_into_one_event_are_all_there() {
    run_large(1_500, 1);
}

#[test]
fn larger_results_than_fit_into_one_event_are_all_there() {
    run_large(40, 4_000);
}

const MILLION: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: million, path: tests/million}
workload: {count: 1000000}
workflow:
  - step: each
    loop: {in: "{{ range(workload.count) }}", iterator: n, spec: {mode: parallel}}
    tool: {kind: noop}
    next: {arcs: [{step: end, when: "{{ each.stats.succeeded == workload.count }}"}]}
  - step: end
    tool: {kind: noop, result: "{{ each.stats }}"}
"#;

/// Number of events that an iteration of a successful task writes: start and end of itself and of its task.
const ITERATION_EVENTS: u64 = 4;

/// Follows the log from behind a seq until an event of this type is recorded there.
fn wait_for_event(sandbox: &CliSandbox, id: &str, after: u64, kind: &str) -> Value {
    let after = after.to_string();
    let mut follower = sandbox.start(&["events", id, "-f", "--after", &after, "-o", "ndjson"]);
    let event = follower.wait_for_event(kind, None);
    follower.kill();
    event.unwrap_or_else(|| panic!("the log ends without {kind}"))
}

/// Peak memory of a process, in bytes.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let text = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = text.and_then(|text| text.parse().ok()).expect("a size");
    kib * 1024
}

/// The files below a folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] })
        .collect()
}

#[test]
fn a_million_iterations_over_a_range_survive_a_kill_in_bounded_memory() {
    let count = 1_000_000;
    let sandbox = CliSandbox::new();
    sandbox.write("million.yaml", MILLION);
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    let run = sandbox.run_json(&["run", "million.yaml", "--detach", "-o", "json"]);
    let id = run["execution_id"].as_str().expect("a run has an id");
    let started = wait_for_event(&sandbox, id, 0, "loop.started");
    let rule = json!({"start": 0, "stop": count, "step": 1});
    assert_eq!(started["payload"]["range"], rule);
    assert_eq!(started["payload"]["collection"], Value::Null);
    wait_for_event(&sandbox, id, count * ITERATION_EVENTS * 2 / 5, "task.done");
    let peak = peak_bytes(server.id());
    assert!(peak < MEMORY_MAX, "the first server had {peak} bytes");
    let server = server.restart(&sandbox);
    wait_for_event(&sandbox, id, count * ITERATION_EVENTS, "playbook.finished");
    let peak = peak_bytes(server.id());
    assert!(peak < MEMORY_MAX, "the second server had {peak} bytes");
    let stats = json!({"total": count, "succeeded": count, "failed": 0});
    assert_eq!(sandbox.run_json(&["result", id]), stats);
    let stored = list_files(&sandbox.path("kept/bodies"));
    assert!(stored.is_empty(), "the loop stored {stored:?}");
}

const LISTED: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: listed, path: tests/listed}
workload: {count: 3}
workflow:
  - step: each
    loop: {in: "{{ range(workload.count) }}", iterator: n, spec: {mode: parallel}}
    tool: {kind: noop, result: "{{ iter.n * 2 }}"}
"#;

const READ: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: read, path: tests/read}
workload: {ref: ""}
workflow:
  - step: read
    tool:
      - get: {kind: artifact, action: get, ref: "{{ workload.ref }}"}
      - sum: {kind: noop, result: "{{ [get.data | length, get.data | sum] }}"}
"#;

/// Reads the results of a loop only through its `loop.done` event.
fn read_by_manifest(count: u64) {
    let sandbox = CliSandbox::new();
    sandbox.write("listed.yaml", LISTED);
    sandbox.write("read.yaml", READ);
    let count_is = format!("count={count}");
    let ran = sandbox.run(&["run", "listed.yaml", "--set", &count_is, "-q"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = sandbox.events("last");
    let done = log.iter().find(|event| event["event_type"] == "loop.done");
    let done = &done.expect("the loop is done")["payload"];
    let uri = done["manifests"][0].as_str().expect("it names its manifest");
    let uri = format!("ref={uri}");
    let read = sandbox.run_json(&["run", "read.yaml", "--set", &uri]);
    assert_eq!(read, json!([count, count * (count - 1)]));
}

#[test]
fn the_end_of_a_short_loop_names_the_manifest_of_its_results() {
    read_by_manifest(3);
}

#[test]
fn the_end_of_a_long_loop_names_the_manifest_of_its_results() {
    read_by_manifest(1_200);
}

/// A loop in a store of its own, and what reads it.
struct ReadingFixture {
    store: Arc<dyn Store>,
    reader: ResultReader,
    finished: FinishedLoop,
    _dir: tempfile::TempDir,
}

impl ReadingFixture {
    async fn new(iterations: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> = Arc::new(store::SqliteStore::open(dir.path()).expect("the store opens"));
        let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).expect("the results open");
        let finished = finish_loop(&*store, iterations).await;
        Self {
            reader: ResultReader::new(store.clone(), Arc::new(bodies)),
            store,
            finished,
            _dir: dir,
        }
    }

    async fn read_iteration(&self, index: u64) {
        let address = ResultAddress {
            selector: ResultSelector {
                iteration: Some(index),
                ..ResultSelector::default()
            },
            ..ResultAddress::for_step("each".into())
        };
        let result = self.reader.find(self.finished.execution, &address).await;
        let Some(LocatedResult::Value(value)) = result.expect("the result is read") else {
            panic!("iteration {index} has no result");
        };
        assert_eq!(value, json!(index));
    }

    /// Reads the latest result of a task, whatever its iteration.
    async fn read_task(&self, task: &str, wanted: Option<u64>) {
        let address = ResultAddress {
            selector: ResultSelector {
                task: Some(task.into()),
                ..ResultSelector::default()
            },
            ..ResultAddress::for_step("each".into())
        };
        let result = self.reader.find(self.finished.execution, &address).await;
        let result = result.expect("the result is read");
        let value = result.map(|result| match result {
            LocatedResult::Value(value) => value,
            other => panic!("a result is inline: {other:?}"),
        });
        assert_eq!(value, wanted.map(|index| json!(index)));
    }

    /// How many rows of the log something reads.
    async fn count_rows(&self, read: impl Future<Output = ()>) -> u64 {
        let before = log_rows_read(self.finished.execution);
        read.await;
        log_rows_read(self.finished.execution) - before
    }

    /// Reads all results; returns their text.
    async fn read_all(&self) -> Vec<u8> {
        let mut pieces = self.result_chunks().await;
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.expect("the piece is read"));
        }
        text
    }

    async fn read_log(&self) {
        let id = self.finished.execution;
        let log = self.store.events(id, Seq(0), usize::MAX).await;
        let last = log.expect("the log is read").pop().map(|event| event.seq);
        assert_eq!(last, Some(self.finished.done.next()));
    }

    async fn read_outline(&self) {
        let id = self.finished.execution;
        let outline = self
            .reader
            .outline(id, Seq(0), 1_000)
            .await
            .expect("the outline is read");
        assert_eq!(outline.events.len(), 7);
        assert_eq!(outline.seq, self.finished.done.next());
        assert_eq!(outline.next, None);
    }

    async fn result_chunks(&self) -> results::ByteStream {
        let pointer = LoopPointer {
            started: self.finished.started,
            done: self.finished.done,
        };
        let result = LocatedResult::Loop(self.finished.execution, pointer);
        self.reader.stream(result).await.expect("the results are read")
    }
}

/// A pass over the log would read a hundred times as many rows of the large loop as of the small one.
#[tokio::test(flavor = "multi_thread")]
async fn reading_a_run_costs_the_same_at_any_number_of_iterations() {
    let mut counts = Vec::new();
    for iterations in [500, 50_000] {
        let fixture = ReadingFixture::new(iterations).await;
        let last = iterations - 1;
        let pass = fixture.count_rows(fixture.read_log()).await;
        assert!(pass > iterations / LOOP_APPEND_ITERATIONS, "{pass}");
        counts.push([
            fixture.count_rows(fixture.read_outline()).await,
            fixture.count_rows(fixture.read_iteration(last)).await,
            fixture.count_rows(fixture.read_task("part", Some(last))).await,
            fixture.count_rows(fixture.read_task("absent", None)).await,
        ]);
    }
    assert_eq!(counts[1], counts[0]);
    assert!(counts[0].iter().all(|rows| *rows < 8), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_results_of_a_loop_are_in_order_and_each_row_is_read_about_once() {
    let iterations = 20_000;
    let fixture = ReadingFixture::new(iterations).await;
    let mut text = Vec::new();
    let rows = fixture.count_rows(async { text = fixture.read_all().await });
    let rows = rows.await;
    let values: Vec<u64> = serde_json::from_slice(&text).unwrap();
    let wanted: Vec<u64> = (0..iterations).collect();
    assert_eq!(values, wanted);
    let appends = iterations / LOOP_APPEND_ITERATIONS;
    assert!(rows >= appends && rows <= appends * 11 / 10, "{rows} of {appends}");
}
