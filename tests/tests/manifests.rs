//! The server and the command line stream a manifest of 100,000 parts: memory does not grow with its size.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;

use model::event::{
    Event, EventBody, EventLocation, EventSource, LoopDone, LoopStarted, LoopStats, ResultStored, StepScheduled,
    TaskEnded,
};
use model::id::{ExecutionId, IdBlock, Seq, StepRunId, TokenId};
use model::manifest::{CombineStrategy, ManifestRule};
use model::outcome::Outcome;
use model::playbook::{Directive, FailureMode, LoopMode};
use model::raw::RawJson;
use serde_json::json;
use server::Server;
use store::{Commit, Snapshot, SqliteStore, Store};
use tests::cli_sandbox::CliSandbox;
use tests::stack::{LocalApi, server_config};

const PARTS: u64 = 100_000;
/// Padding of each part; all parts together have more than 50 MB.
const PADDING_BYTES: usize = 500;
/// Memory limit for reading them.
const GROWTH_MAX_KIB: u64 = 24 * 1024;
/// Memory that the program itself needs.
const PROGRAM_KIB: u64 = 30 * 1024;

/// A log that the test builds.
struct LogWriter {
    store: Arc<SqliteStore>,
    execution: ExecutionId,
    last_seq: Seq,
    state: Option<engine::ExecutionState>,
}

impl LogWriter {
    async fn start(store: Arc<SqliteStore>) -> Self {
        let commit = store::contract::creation_commit(&*store);
        let (execution, last) = (commit.execution, Seq(commit.events.len() as u64));
        let state = commit.events.iter().fold(None, engine::fold);
        store.commit(commit).await.unwrap();
        Self {
            store,
            execution,
            last_seq: last,
            state,
        }
    }

    async fn write(&mut self, bodies: Vec<(EventLocation, EventBody)>) -> Seq {
        let count = u32::try_from(bodies.len()).unwrap();
        let mut ids = IdBlock::starting_at(self.store.ids(count));
        let now = self.store.now();
        let events = bodies.into_iter().zip(self.last_seq.0 + 1..);
        let events: Vec<Event> = events
            .map(|((at, body), seq)| Event {
                event_id: ids.next_event_id(),
                execution_id: self.execution,
                seq: Seq(seq),
                cause_seq: Some(Seq(seq - 1)),
                timestamp: now,
                recorded_at: now,
                source: EventSource::Server,
                location: at,
                duration_ms: None,
                worker_id: None,
                trace_id: None,
                meta: None,
                body,
            })
            .collect();
        let expected = self.last_seq;
        self.last_seq = Seq(expected.0 + events.len() as u64);
        self.state = events.iter().fold(self.state.take(), engine::fold);
        let mut bytes = Vec::new();
        // Like a server, stores a snapshot from time to time, so that no reader replays a long log.
        if events.len() == 1 {
            ciborium::into_writer(&self.state, &mut bytes).unwrap();
        }
        let mut commit = Commit::new(self.execution, expected, events);
        let snapshot = Snapshot {
            seq: self.last_seq,
            version: server::SNAPSHOT_VERSION,
            bytes,
        };
        commit.snapshot = Some(snapshot).filter(|snapshot| !snapshot.bytes.is_empty());
        self.store.commit(commit).await.unwrap();
        self.last_seq
    }
}

fn step_run(step: &str) -> StepRunId {
    StepRunId {
        step: step.into(),
        run: 1,
    }
}

fn step_scheduled(step: &str) -> (EventLocation, EventBody) {
    let scheduled = StepScheduled {
        tokens: vec![TokenId { seq: Seq(1), arc: 0 }],
        args: None,
        args_from: None,
        is_final: false,
    };
    let at = EventLocation::of_step_run(&step_run(step));
    (at, EventBody::StepScheduled(Box::new(scheduled)))
}

fn part_event(at: EventLocation, n: u64) -> (EventLocation, EventBody) {
    let outcome = Outcome::ok(json!({"n": n, "text": "x".repeat(PADDING_BYTES)}));
    let ended = TaskEnded {
        outcome: RawJson::from_serializable(&outcome),
        result_ref: None,
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    };
    (at, EventBody::TaskDone(Box::new(ended)))
}

/// The pages of one task, latest first; readers must return them in page order.
async fn write_pages(writer: &mut LogWriter) -> String {
    let at = |page: u64| EventLocation {
        task: Some("fetch".into()),
        visit: u32::try_from(PARTS - page + 1).unwrap(),
        attempt: 1,
        page: Some(i64::try_from(page).unwrap()),
        ..EventLocation::of_step_run(&step_run("paged"))
    };
    let first = writer.write(vec![step_scheduled("paged")]).await.next();
    let all: Vec<u64> = (1..=PARTS).rev().collect();
    for some in all.chunks(500) {
        let bodies = some.iter().map(|page| part_event(at(*page), *page));
        writer.write(bodies.collect()).await;
    }
    let rule = ManifestRule {
        strategy: CombineStrategy::Append,
        merge_path: None,
        first,
        seq: writer.last_seq.next(),
        parts: PARTS,
        pages: Vec::new(),
        is_loop: false,
        is_result: true,
        ends_pipeline: true,
    };
    let location = EventLocation { page: None, ..at(1) };
    let reference = rule.to_reference(writer.execution, &location, 0, None);
    let uri = reference.uri.clone();
    let result_ref = Box::new(reference);
    let body = EventBody::ManifestUpdated(ResultStored { result_ref });
    writer.write(vec![(location, body)]).await;
    uri
}

/// The iterations of a loop, every second one first.
async fn write_iterations(writer: &mut LogWriter) {
    let at = || EventLocation::of_step_run(&step_run("looped"));
    let started = LoopStarted {
        total: PARTS,
        mode: LoopMode::Parallel,
        max_in_flight: 16,
        failure: FailureMode::FailFast,
        local: false,
        collection: None,
        collection_ref: None,
        range: None,
        sha256: String::new(),
        reused: None,
        more: false,
    };
    let first_events = vec![
        step_scheduled("looped"),
        (at(), EventBody::LoopStarted(Box::new(started))),
    ];
    writer.write(first_events).await;
    let all: Vec<u64> = (0..PARTS).step_by(2).chain((1..PARTS).step_by(2)).collect();
    for some in all.chunks(500) {
        let location = |index: u64| EventLocation {
            task: Some("part".into()),
            visit: 1,
            attempt: 1,
            ..at().with_iteration(Some(index))
        };
        let bodies = some.iter().map(|index| part_event(location(*index), *index));
        writer.write(bodies.collect()).await;
    }
    let stats = LoopStats {
        total: PARTS,
        succeeded: PARTS,
        failed: 0,
    };
    let results = None;
    let done = EventBody::LoopDone(LoopDone {
        stats,
        results,
        manifests: Vec::new(),
    });
    writer.write(vec![(at(), done)]).await;
}

/// Peak resident memory of a process in KiB.
fn peak_kib(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Checks that numbers arrive in order, without buffering them.
#[derive(Default)]
struct OrderChecker {
    buffer: Vec<u8>,
    bytes: u64,
    next_number: u64,
}

impl OrderChecker {
    fn push(&mut self, chunk: &[u8], first: u64) {
        self.bytes += chunk.len() as u64;
        self.buffer.extend_from_slice(chunk);
        let mark = b"{\"n\":";
        let mut from = 0;
        while let Some(position) = find_bytes(&self.buffer[from..], mark) {
            let number = &self.buffer[from + position + mark.len()..];
            let Some(end) = number.iter().position(|byte| !byte.is_ascii_digit()) else {
                break;
            };
            let number: u64 = std::str::from_utf8(&number[..end]).unwrap().parse().unwrap();
            assert_eq!(number, first + self.next_number);
            self.next_number += 1;
            from += position + mark.len() + end;
        }
        let end_of_checked = self.buffer.len().saturating_sub(mark.len() + 20).max(from);
        self.buffer.drain(..end_of_checked);
    }
}

fn find_bytes(text: &[u8], mark: &[u8]) -> Option<usize> {
    text.windows(mark.len()).position(|window| window == mark)
}

async fn start_server(dir: &std::path::Path, store: Arc<SqliteStore>) -> LocalApi {
    let bodies = results::DirBodyStore::open(&dir.join("bodies")).unwrap();
    let server = Server::start(server_config(store, Arc::new(bodies))).unwrap();
    let logs = results::FileLogs::open(dir.join("logs")).unwrap();
    LocalApi::start(server, logs).await
}

async fn check_response(url: &str, first: u64) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut response = reqwest::get(url).await.unwrap();
    assert!(response.status().is_success(), "{url}: {response:?}");
    let mut order = OrderChecker::default();
    while let Some(piece) = response.chunk().await.unwrap() {
        order.push(&piece, first);
    }
    assert_eq!(order.next_number, PARTS, "{url}");
    assert!(order.bytes > PARTS * PADDING_BYTES as u64);
}

/// Reads the output of a command, and returns its peak memory.
fn check_printed(sandbox: &CliSandbox, args: &[&str], first: u64) -> u64 {
    let mut command = sandbox.command(args);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let process = child.id().to_string();
    let mut out = child.stdout.take().unwrap();
    let (mut order, mut most) = (OrderChecker::default(), 0);
    let mut piece = vec![0; 256 * 1024];
    loop {
        let read = out.read(&mut piece).unwrap();
        most = most.max(peak_kib(&process));
        if read == 0 {
            break;
        }
        order.push(&piece[..read], first);
    }
    assert!(child.wait().unwrap().success(), "{args:?}");
    assert_eq!(order.next_number, PARTS, "{args:?}");
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_parts_are_read_in_constant_memory() {
    let sandbox = CliSandbox::new();
    let dir = sandbox.path("noetl-store");
    fs::create_dir_all(&dir).unwrap();
    let store = Arc::new(SqliteStore::open(&dir).unwrap());
    let mut writer = LogWriter::start(store.clone()).await;
    let uri = write_pages(&mut writer).await;
    write_iterations(&mut writer).await;
    let id = writer.execution;
    let api = start_server(&dir, store).await;
    let url = &api.url;
    let small = format!("{url}/api/result/{id}/paged?page=7");
    assert!(is_ready(&small).await);
    let before = peak_kib("self");
    check_response(&format!("{url}/api/result/resolve?ref={uri}"), 1).await;
    check_response(&format!("{url}/api/result/{id}/looped"), 0).await;
    let growth = peak_kib("self") - before;
    assert!(growth < GROWTH_MAX_KIB, "the server used {growth} KiB");
    let store = dir.display().to_string();
    for form in [&["--raw"][..], &["-o", "ndjson"], &["-o", "json"]] {
        let looped = format!("{id}/looped");
        let args = [&["result", &looped, "--store", &store][..], form].concat();
        let most = check_printed(&sandbox, &args, 0);
        assert!(most < PROGRAM_KIB + GROWTH_MAX_KIB, "{form:?} took {most} KiB");
    }
}

async fn is_ready(url: &str) -> bool {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::get(url).await.unwrap().status().is_success()
}
